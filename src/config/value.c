/* One value of one field: from JSON, to JSON, compared, freed.
 *
 * A value is replaced only after the new one is complete, so a failure leaves the old one. This
 * file knows kinds, not fields: rules between fields are in resolve.c. */
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/table.h"

enum { MAX_ITEMS = 1 << 16 };

char *config_json_dump(const json_t *value, size_t order) {
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15) | order;
    char *text = NULL;
    size_t size = value ? json_dumpb(value, NULL, 0, flags) : 0;
    if (size) text = base_alloc(size + 1);
    if (text) (void)json_dumpb(value, text, size, flags);
    return text;
}

char *config_json_text(const json_t *value) {
    return config_json_dump(value, JSON_SORT_KEYS);
}

static void names_join(const config_names *names, char *out, size_t size) {
    size_t len = strlen(out);
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->v[i].name;
        if (names->v[i].unsupported) continue;
        if (len + strlen(name) + 3 > size) return;
        if (i) memcpy(out + len, ", ", 3), len += 2;
        memcpy(out + len, name, strlen(name) + 1);
        len += strlen(name);
    }
}

static void range_text(const config_field *f, const char *what, char *out, size_t size) {
    if (f->min == INT64_MIN)
        (void)snprintf(out, size, "%s", what);
    else
        (void)snprintf(out, size, "%s from %lld to %lld", what, (long long)f->min,
                       (long long)f->max);
}

void config_value_expected(const config_field *f, char *out, size_t size) {
    char items[64];
    switch (f->kind) {
    case CONFIG_KIND_BOOL:
    case CONFIG_KIND_OBOOL: (void)snprintf(out, size, "true or false"); break;
    case CONFIG_KIND_INT:
    case CONFIG_KIND_OINT: range_text(f, "an integer", out, size); break;
    case CONFIG_KIND_FLOAT: range_text(f, "a number", out, size); break;
    case CONFIG_KIND_STR: (void)snprintf(out, size, "a string"); break;
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_OENUM:
        if (f->names->int_max >= 0)
            (void)snprintf(out, size, "0 to %d or one of ", f->names->int_max);
        else
            (void)snprintf(out, size, "one of ");
        names_join(f->names, out, size);
        break;
    case CONFIG_KIND_INTS: range_text(f, "a list of integers", out, size); break;
    case CONFIG_KIND_SIZES:
        range_text(f, "a list of integers", items, sizeof items);
        (void)snprintf(out, size, "%s or \"%s\"", items, f->word);
        break;
    case CONFIG_KIND_STRS: (void)snprintf(out, size, "a list of strings"); break;
    case CONFIG_KIND_DICT: (void)snprintf(out, size, "an object"); break;
    }
}

json_t *config_text_json(const char *text) {
    enum { LONGEST = 4 }; /* bytes of a character */
    if (!text) return json_null();
    json_t *j = json_string(text);
    if (j) return j;
    base_buf b;
    base_buf_init(&b, 0);
    for (size_t n = strlen(text), len; *text; text += len, n -= len) {
        bool good = false; /* jansson takes UTF-8 alone */
        for (len = 1; !good && len <= LONGEST && len <= n; len += !good) {
            json_t *probe = json_stringn(text, len);
            good = probe != NULL;
            json_decref(probe);
        }
        if (!good) len = 1;
        base_buf_add(&b, good ? text : "\xef\xbf\xbd", good ? len : 3);
    }
    if (!b.failed) j = json_stringn(b.data, b.len);
    base_buf_done(&b);
    return j;
}

const char *config_shown(const char *text, char out[CONFIG_SHOWN]) {
    json_t *probe = json_string(text);
    size_t n = strlen(text), kept = n < CONFIG_SHOWN ? n : CONFIG_SHOWN - 4;
    while (probe && kept < n && kept && (text[kept] & 0xC0) == 0x80) kept--;
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)text[i];
        out[i] = c < 0x20 || c == 0x7f || (c >= 0x80 && !probe) ? '?' : (char)c;
    }
    memcpy(out + kept, kept < n ? "..." : "", kept < n ? 4 : 1);
    json_decref(probe);
    return out;
}

/* key, value, expected: the one text of all type and range errors. */
static rp_status wrong(const config_field *f, const json_t *value, rp_error *err) {
    char expected[256], shown[CONFIG_SHOWN];
    char *text = config_json_text(value);
    config_value_expected(f, expected, sizeof expected);
    rp_status st = rp_fail(err, RP_CONFIG, "%s=%s: expected %s", f->name,
                           config_shown(text ? text : "", shown), expected);
    base_free(text);
    return st;
}

static bool name_equal(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        char ca = *a == '-' ? '_' : *a, cb = *b == '-' ? '_' : *b;
        if (!base_same_start(&ca, &cb, 1)) return false;
    }
    return *a == *b;
}

static rp_status enum_from_json(const config_field *f, const json_t *value, int *out,
                                rp_error *err) {
    int64_t number = -1;
    if (json_is_integer(value))
        number = json_integer_value(value);
    else if (!json_is_string(value))
        return wrong(f, value, err);
    else {
        const char *text = json_string_value(value);
        for (size_t i = 0; i < f->names->n; i++) {
            if (!name_equal(text, f->names->v[i].name)) continue;
            if (f->names->v[i].unsupported)
                return rp_fail(err, RP_UNSUPPORTED, "%s=%s is not supported: %s", f->name,
                               f->names->v[i].name, f->names->v[i].unsupported);
            *out = f->names->v[i].value;
            return RP_OK;
        }
        if (!base_parse_i64(text, &number)) return wrong(f, value, err);
    }
    if (number < 0 || number > f->names->int_max) return wrong(f, value, err);
    *out = (int)number;
    return RP_OK;
}

static bool int_fits(const config_field *f, const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= f->min &&
           json_integer_value(value) <= f->max;
}

static bool is_word(const config_field *f, const json_t *value) {
    return f->kind == CONFIG_KIND_SIZES && json_is_string(value) &&
           name_equal(json_string_value(value), f->word);
}

static rp_status ints_from_json(const config_field *f, config_ints *slot, const json_t *value,
                                rp_error *err) {
    config_ints list = {0};
    if (is_word(f, value))
        list = (config_ints){.set = true, .word = true};
    else if (!json_is_null(value)) {
        size_t n = json_array_size(value);
        if (!json_is_array(value) || n > MAX_ITEMS) return wrong(f, value, err);
        for (size_t i = 0; i < n; i++)
            if (!int_fits(f, json_array_get(value, i)) && !is_word(f, json_array_get(value, i)))
                return wrong(f, value, err);
        list.set = true;
        list.v = base_alloc_array(n ? n : 1, sizeof *list.v);
        if (!list.v) return rp_fail(err, RP_NOMEM, "%s: no memory for %zu items", f->name, n);
        for (size_t i = 0; i < n; i++) {
            const json_t *item = json_array_get(value, i);
            if (json_is_integer(item))
                list.v[list.n++] = json_integer_value(item);
            else
                list.word = true;
        }
    }
    base_free(slot->v);
    *slot = list;
    return RP_OK;
}

static void strs_done(config_strs *list) {
    for (size_t i = 0; i < list->n; i++) base_free(list->v[i]);
    base_free(list->v);
    *list = (config_strs){0};
}

static rp_status strs_from_json(const config_field *f, config_strs *slot, const json_t *value,
                                rp_error *err) {
    config_strs list = {0};
    if (!json_is_null(value)) {
        size_t n = json_array_size(value);
        if (!json_is_array(value) || n > MAX_ITEMS) return wrong(f, value, err);
        for (size_t i = 0; i < n; i++)
            if (!json_is_string(json_array_get(value, i))) return wrong(f, value, err);
        list.set = true;
        list.v = base_alloc_array(n ? n : 1, sizeof *list.v);
        while (list.v && list.n < n) {
            list.v[list.n] = base_strdup(json_string_value(json_array_get(value, list.n)));
            if (!list.v[list.n]) break;
            list.n++;
        }
        if (!list.v || list.n < n) {
            strs_done(&list);
            return rp_fail(err, RP_NOMEM, "%s: no memory for %zu items", f->name, n);
        }
    }
    strs_done(slot);
    *slot = list;
    return RP_OK;
}

static rp_status text_replace(const config_field *f, char **slot, char *text, rp_error *err) {
    if (!text) return rp_fail(err, RP_NOMEM, "%s: no memory for its text", f->name);
    base_free(*slot);
    *slot = text;
    return RP_OK;
}

static rp_status scalar_from_json(const config_field *f, void *slot, const json_t *value,
                                  rp_error *err) {
    bool null = json_is_null(value);
    switch (f->kind) {
    case CONFIG_KIND_BOOL:
        if (!json_is_boolean(value)) return wrong(f, value, err);
        *(bool *)slot = json_is_true(value);
        return RP_OK;
    case CONFIG_KIND_OBOOL:
        if (!null && !json_is_boolean(value)) return wrong(f, value, err);
        *(config_obool *)slot = (config_obool){!null, json_is_true(value)};
        return RP_OK;
    case CONFIG_KIND_INT:
        if (!int_fits(f, value)) return wrong(f, value, err);
        *(int64_t *)slot = json_integer_value(value);
        return RP_OK;
    case CONFIG_KIND_OINT:
        if (!null && !int_fits(f, value)) return wrong(f, value, err);
        *(config_oint *)slot = (config_oint){!null, null ? 0 : json_integer_value(value)};
        return RP_OK;
    default: { /* FLOAT */
        double x = json_number_value(value);
        if (!json_is_number(value) || !(x >= (double)f->min && x <= (double)f->max))
            return wrong(f, value, err);
        *(double *)slot = x;
        return RP_OK;
    }
    }
}

rp_status config_value_set(const config_field *f, void *slot, const json_t *value, rp_error *err) {
    int number = 0;
    switch (f->kind) {
    case CONFIG_KIND_STR:
        if (!json_is_string(value)) return wrong(f, value, err);
        return text_replace(f, slot, base_strdup(json_string_value(value)), err);
    case CONFIG_KIND_DICT:
        if (!json_is_object(value)) return wrong(f, value, err);
        return text_replace(f, slot, config_json_text(value), err);
    case CONFIG_KIND_ENUM:
        RP_TRY(enum_from_json(f, value, &number, err));
        *(int *)slot = number;
        return RP_OK;
    case CONFIG_KIND_OENUM:
        if (!json_is_null(value)) RP_TRY(enum_from_json(f, value, &number, err));
        *(config_oenum *)slot = (config_oenum){!json_is_null(value), number};
        return RP_OK;
    case CONFIG_KIND_INTS:
    case CONFIG_KIND_SIZES: return ints_from_json(f, slot, value, err);
    case CONFIG_KIND_STRS: return strs_from_json(f, slot, value, err);
    default: return scalar_from_json(f, slot, value, err);
    }
}

static json_t *enum_json(const config_field *f, int value) {
    if (f->names->as_int) return json_integer(value);
    for (size_t i = 0; i < f->names->n; i++)
        if (f->names->v[i].value == value) return json_string(f->names->v[i].name);
    return json_null();
}

/* NULL-propagating append that takes item. */
static json_t *list_add(json_t *list, json_t *item) {
    if (!list || !item || json_array_append_new(list, item) != 0) {
        json_decref(list);
        if (!list) json_decref(item);
        return NULL;
    }
    return list;
}

static json_t *ints_json(const config_field *f, const config_ints *list) {
    if (!list->set) return json_null();
    if (list->word && !list->n) return json_string(f->word);
    json_t *out = json_array();
    for (size_t i = 0; i < list->n; i++) out = list_add(out, json_integer(list->v[i]));
    if (list->word) out = list_add(out, json_string(f->word));
    return out;
}

static json_t *strs_json(const config_strs *list) {
    if (!list->set) return json_null();
    json_t *out = json_array();
    for (size_t i = 0; i < list->n; i++) out = list_add(out, json_string(list->v[i]));
    return out;
}

json_t *config_value_json(const config_field *f, const void *slot) {
    const config_obool *ob = slot;
    const config_oint *oi = slot;
    const config_oenum *oe = slot;
    switch (f->kind) {
    case CONFIG_KIND_BOOL: return json_boolean(*(const bool *)slot);
    case CONFIG_KIND_OBOOL: return ob->set ? json_boolean(ob->v) : json_null();
    case CONFIG_KIND_INT: return json_integer(*(const int64_t *)slot);
    case CONFIG_KIND_OINT: return oi->set ? json_integer(oi->v) : json_null();
    case CONFIG_KIND_FLOAT: return json_real(*(const double *)slot);
    case CONFIG_KIND_STR: return json_string(*(char *const *)slot);
    case CONFIG_KIND_ENUM: return enum_json(f, *(const int *)slot);
    case CONFIG_KIND_OENUM: return oe->set ? enum_json(f, oe->v) : json_null();
    case CONFIG_KIND_INTS:
    case CONFIG_KIND_SIZES: return ints_json(f, slot);
    case CONFIG_KIND_STRS: return strs_json(slot);
    case CONFIG_KIND_DICT: return json_loads(*(char *const *)slot, 0, NULL);
    }
    return NULL;
}

char *config_value_text(const config_field *f, const void *slot) {
    json_t *value = config_value_json(f, slot);
    char *text = value ? config_json_text(value) : NULL;
    json_decref(value);
    return text;
}

rp_status config_value_reset(const config_field *f, void *slot, rp_error *err) {
    json_t *value = NULL;
    RP_TRY(config_value_parse(f, f->deflt, &value, err));
    rp_status st = config_value_set(f, slot, value, err);
    json_decref(value);
    return st;
}

static bool same(const json_t *a, const json_t *b) {
    if (json_is_number(a)) return json_number_value(a) == json_number_value(b); /* 0 and 0.0 */
    if (json_is_string(a) && json_is_string(b))
        return name_equal(json_string_value(a), json_string_value(b));
    return json_equal(a, b) == 1;
}

bool config_value_is_default(const config_field *f, const void *slot) {
    json_t *deflt = NULL, *value = config_value_json(f, slot);
    bool is = value && config_value_parse(f, f->deflt, &deflt, NULL) == RP_OK && same(value, deflt);
    json_decref(value);
    json_decref(deflt);
    return is;
}

bool config_json_is_off(const json_t *value) {
    const char *key;
    json_t *item;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, item) {
            if (json_is_object(item) ? json_object_size(item) > 0 : !config_json_is_off(item))
                return false;
        }
        return true;
    }
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && !*json_string_value(value)) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

bool config_value_is_off(const config_field *f, const void *slot) {
    json_t *value = config_value_json(f, slot);
    bool off = config_json_is_off(value);
    json_decref(value);
    return off;
}

rp_status config_value_asks(const config_field *f, const void *slot, bool *out, rp_error *err) {
    json_t *value = config_value_json(f, slot), *deflt = NULL, *done = NULL;
    rp_status st = value ? RP_OK : rp_fail(err, RP_NOMEM, "no memory for the value of %s", f->name);
    if (st == RP_OK) st = config_value_parse(f, f->deflt, &deflt, err);
    if (st == RP_OK && f->same) st = config_value_parse(f, f->same, &done, err);
    if (st == RP_OK)
        *out = !same(value, deflt) && !(done && same(value, done)) &&
               !(config_json_is_off(value) && config_json_is_off(deflt));
    json_decref(value);
    json_decref(deflt);
    json_decref(done);
    return st;
}

void config_value_done(const config_field *f, void *slot) {
    switch (f->kind) {
    case CONFIG_KIND_STR:
    case CONFIG_KIND_DICT:
        base_free(*(char **)slot);
        *(char **)slot = NULL;
        break;
    case CONFIG_KIND_INTS:
    case CONFIG_KIND_SIZES:
        base_free(((config_ints *)slot)->v);
        *(config_ints *)slot = (config_ints){0};
        break;
    case CONFIG_KIND_STRS: strs_done(slot); break;
    default: break;
    }
}
