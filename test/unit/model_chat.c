/* Chat templates: which Jinja texts are recognised, which are refused, what is written. */
#include "support/check.h"

#include "base/alloc.h"
#include "model/chat.h"

#define ROLE_CONTENT \
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
#define GENERATION "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
#define SYSTEM(text)                                          \
    "{% if loop.first and messages[0]['role'] != 'system' %}" \
    "{{ '<|im_start|>system\\n" text "<|im_end|>\\n' }}{% endif %}"
#define FOR "{% for message in messages %}"

static void recognised(const char *source, const char *system) {
    rp_error err = {0};
    model_chat c;
    CHECK_OK(model_chat_init(&c, NULL, base_str_of(source), &err), &err);
    assert_int_equal(c.kind, MODEL_CHAT_CHATML);
    if (system)
        assert_string_equal(c.system, system);
    else
        assert_null(c.system);
    model_chat_done(&c);
}

static void refused(const char *source) {
    rp_error err = {0};
    model_chat c;
    if (model_chat_init(&c, "auto", base_str_of(source), &err) != RP_UNSUPPORTED)
        fail_msg("recognised: %s", source);
    assert_non_null(strstr(err.text, "--chat-template"));
    model_message m = {base_str_of("user"), base_str_of("Hi")};
    base_buf out = {0};
    assert_int_equal(model_chat_apply(&c, &m, 1, true, &out, NULL), RP_UNSUPPORTED);
    assert_int_equal(out.len, 0);
    base_buf_done(&out);
    model_chat_done(&c);
}

static void chatml_is_recognised(void **state) {
    (void)state;
    recognised(FOR ROLE_CONTENT "{% endfor %}" GENERATION, NULL);
    recognised(FOR SYSTEM("Be kind.") ROLE_CONTENT "{% endfor %}" GENERATION, "Be kind.");
    recognised(FOR SYSTEM("It\\'s \\\"so\\\"\\nnow") ROLE_CONTENT "{% endfor %}",
               "It's \"so\"\nnow");
    recognised(FOR SYSTEM("a\\tb\\rc\\\\d") ROLE_CONTENT "{% endfor %}", "a\tb\rc\\d");
    recognised(
        "{%- for message in messages -%}\n  {{ \"<|im_start|>\" + message[\"role\"] + \"\\n\""
        " + message[\"content\"] + \"<|im_end|>\\n\" }}\n{%- endfor -%}\n",
        NULL);
    recognised("{% for message in messages %}\n{{'<|im_start|>' + message['role'] + '\\n' + "
               "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}\n" GENERATION,
               NULL);
    recognised("{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false "
               "%}{% endif %}" FOR ROLE_CONTENT "{% endfor %}" GENERATION,
               NULL);
}

static void others_are_refused(void **state) {
    (void)state;
    refused("{{ bos_token }}{% for message in messages %}[INST]{% endfor %}");
    refused(FOR ROLE_CONTENT "{% endfor %}{{ eos_token }}");
    refused(FOR "{% if message['role'] == 'tool' %}x{% endif %}" ROLE_CONTENT "{% endfor %}");
    refused("text " FOR ROLE_CONTENT "{% endfor %}");
    refused(FOR ROLE_CONTENT "\n{% endfor %}"); /* a newline after each message */
    refused(FOR "{# <|im_start|> #}" ROLE_CONTENT "{% endfor %}");
    refused(FOR ROLE_CONTENT "{% endfor %");
    refused(FOR ROLE_CONTENT "{% endfor");
    refused("{{ '<|im_start|>");
    refused("{{ '<|im_start|>\\");
    refused("{");
    refused("x");
    refused(FOR SYSTEM("a' + name + 'b") ROLE_CONTENT "{% endfor %}");
    refused(FOR SYSTEM("a\\x") ROLE_CONTENT "{% endfor %}");
    refused(FOR SYSTEM("a\x02") ROLE_CONTENT "{% endfor %}");
    refused(FOR SYSTEM("a\\\x01") ROLE_CONTENT "{% endfor %}");
}

/* What frames a string in the canonical form is none in a template: neither spelled out within one literal nor beside them. */
static void frames_of_strings_are_refused(void **state) {
    (void)state;
    refused(FOR "{{'<|im_start|>\x02+message[\x01role\x02]+\x01\n\x02+message[\x01"
                "content\x02]+\x01<|im_end|>\n'}}{% endfor %}");
    refused(FOR "{{'<|im_start|>' + message[\x01role\x02] + '\\n' + message['content'] + "
                "'<|im_end|>\\n'}}{% endfor %}");
    refused(FOR ROLE_CONTENT "{% endfor %}{% if add_generation_prompt %}{{\x01<|im_start|>assistant"
                             "\\n\x02}}{% endif %}");
}

static void every_prefix_is_refused(void **state) {
    (void)state;
    static const char source[] = FOR SYSTEM("Be kind.") ROLE_CONTENT "{% endfor %}" GENERATION;
    size_t whole = sizeof source - 1, to_endfor = whole - (sizeof GENERATION - 1);
    for (size_t n = 1; n < whole; n++) {
        char *cut = malloc(n);
        model_chat c;
        memcpy(cut, source, n);
        rp_status st = model_chat_init(&c, NULL, (base_str){cut, n}, NULL);
        if ((st == RP_OK) != (n == to_endfor)) fail_msg("%zu of %zu", n, whole);
        model_chat_done(&c);
        free(cut);
    }
}

static void applied(const model_chat *c, const model_message *m, size_t n, bool prompt,
                    const char *want) {
    rp_error err = {0};
    base_buf out = {0};
    CHECK_OK(model_chat_apply(c, m, n, prompt, &out, &err), &err);
    assert_string_equal(out.data, want);
    base_buf_done(&out);
}

static void messages_are_written(void **state) {
    (void)state;
    rp_error err = {0};
    model_chat c;
    const model_message m[] = {{base_str_of("system"), base_str_of("S")},
                               {base_str_of("user"), base_str_of("Hi\n")}};
    const char *source = FOR SYSTEM("D") ROLE_CONTENT "{% endfor %}" GENERATION;
    CHECK_OK(model_chat_init(&c, "AUTO", base_str_of(source), &err), &err);
    applied(&c, m, 2, true,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n"
            "<|im_start|>assistant\n");
    applied(&c, m + 1, 1, false,
            "<|im_start|>system\nD<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n");
    base_buf out = {0};
    assert_int_equal(model_chat_apply(&c, m, 0, true, &out, &err), RP_INVALID);
    model_message nobody = {base_str_of(""), base_str_of("x")};
    assert_int_equal(model_chat_apply(&c, &nobody, 1, true, &out, NULL), RP_INVALID);
    const model_message later[] = {m[0], m[1], nobody};
    err = (rp_error){0};
    assert_int_equal(model_chat_apply(&c, later, 3, true, &out, &err), RP_INVALID);
    assert_string_equal(err.text, "message 3 has no role: system, user or assistant");
    err = (rp_error){0};
    model_chat_done(&c);

    err = (rp_error){0};
    CHECK_OK(model_chat_init(&c, "none", base_str_of("{{ anything }}"), &err), &err);
    applied(&c, m, 2, true, "SHi\n");
    model_chat_done(&c);
    CHECK_OK(model_chat_init(&c, "chatml", base_str_of("{{ anything }}"), &err), &err);
    applied(&c, m + 1, 1, false, "<|im_start|>user\nHi\n<|im_end|>\n");
    model_chat_done(&c);
    CHECK_OK(model_chat_init(&c, "chatml", base_str_of(source), &err), &err);
    applied(&c, m + 1, 1, false,
            "<|im_start|>system\nD<|im_end|>\n<|im_start|>user\nHi\n<|im_end|>\n");
    model_chat_done(&c);
    CHECK_OK(model_chat_init(&c, NULL, base_str_of(""), &err), &err);
    assert_int_equal(c.kind, MODEL_CHAT_NONE);
    assert_int_equal(model_chat_init(&c, "llama3", base_str_of(""), &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "unknown chat template 'llama3'"));
    base_buf_done(&out);
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    const char *source = FOR SYSTEM("D") ROLE_CONTENT "{% endfor %}" GENERATION;
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        model_chat c;
        rp_status st = model_chat_init(&c, NULL, base_str_of(source), NULL);
        assert_true(st == RP_OK || st == RP_NOMEM);
        model_chat_done(&c);
        assert_int_equal(base_live(), before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chatml_is_recognised),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(frames_of_strings_are_refused),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(messages_are_written),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
