/* Dot notation: the text behind '=' becomes the JSON that the field's kind expects.
 *
 * A text that is no value of the kind becomes a JSON string, so that the error of config_value_set
 * shows it as typed. Nothing here looks at ranges. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/table.h"

static bool is_list(config_kind kind) {
    return kind == CONFIG_KIND_INTS || kind == CONFIG_KIND_SIZES || kind == CONFIG_KIND_STRS;
}

static bool is_optional(config_kind kind) {
    return kind == CONFIG_KIND_OBOOL || kind == CONFIG_KIND_OINT || kind == CONFIG_KIND_OENUM ||
           is_list(kind);
}

static json_t *item_json(const config_field *f, const char *text, size_t len) {
    int64_t number;
    char digits[32];
    while (len && (*text == ' ' || *text == '"' || *text == '\'')) text++, len--;
    while (len && (text[len - 1] == ' ' || text[len - 1] == '"' || text[len - 1] == '\'')) len--;
    if (f->kind != CONFIG_KIND_STRS && len < sizeof digits) {
        memcpy(digits, text, len);
        digits[len] = '\0';
        if (base_parse_i64(digits, &number)) return json_integer(number);
    }
    return json_stringn(text, len);
}

/* "1,2,4", "[1,2,4]", "[+a,-b]" or the bare word of a SIZES field. */
static json_t *list_json(const config_field *f, const char *text) {
    size_t len = strlen(text);
    json_t *list = text[0] == '[' ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (list) return list;
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') text++, len -= 2;
    list = json_array();
    for (size_t at = 0; list && len && at <= len;) {
        const char *comma = memchr(text + at, ',', len - at);
        size_t n = comma ? (size_t)(comma - text) - at : len - at;
        json_t *item = item_json(f, text + at, n);
        if (!item || json_array_append_new(list, item) != 0) {
            json_decref(list);
            return NULL;
        }
        at += n + 1;
    }
    if (f->word && list && json_array_size(list) == 1 && json_is_string(json_array_get(list, 0))) {
        json_t *word = json_incref(json_array_get(list, 0));
        json_decref(list);
        return word;
    }
    return list;
}

static json_t *scalar_json(const config_field *f, const char *text) {
    int64_t number;
    double real;
    json_t *value;
    switch (f->kind) {
    case CONFIG_KIND_BOOL:
    case CONFIG_KIND_OBOOL:
        if (base_same_word(text, "true") || !strcmp(text, "1")) return json_true();
        if (base_same_word(text, "false") || !strcmp(text, "0")) return json_false();
        break;
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_OENUM:
    case CONFIG_KIND_INT:
    case CONFIG_KIND_OINT:
        if (base_parse_i64(text, &number)) return json_integer(number);
        break;
    case CONFIG_KIND_FLOAT:
        if (base_parse_f64(text, &real)) {
            value = json_real(real); /* NULL for infinities and NaN */
            if (value) return value;
        }
        break;
    case CONFIG_KIND_DICT:
        value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        if (value) return value;
        break;
    default: break;
    }
    return json_string(text);
}

rp_status config_value_parse(const config_field *f, const char *text, json_t **out, rp_error *err) {
    json_t *value;
    if (base_same_word(text, "null") && is_optional(f->kind))
        value = json_null();
    else if (is_list(f->kind))
        value = list_json(f, text);
    else
        value = scalar_json(f, text);
    if (!value) {
        json_t *probe = json_string(text); /* fails for bytes that are not UTF-8 */
        json_decref(probe);
        return probe ? rp_fail(err, RP_NOMEM, "%s: no memory for its value", f->name)
                     : rp_fail(err, RP_CONFIG,
                               "%s: its value is not valid UTF-8; give text in "
                               "UTF-8",
                               f->name);
    }
    *out = value;
    return RP_OK;
}
