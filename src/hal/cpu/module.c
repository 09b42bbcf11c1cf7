/* Code objects of the cpu: shared objects opened with dlopen, symbols private to each. Whoever loads
 * one has checked it: opening it runs its constructors. */
#include <dlfcn.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/sys.h"
#include "hal/cpu/cpu.h"

struct hal_module {
    void *handle;
};

/* The loader's text, without a newline that some versions append. */
static base_str loader_error(void) {
    base_str s = base_str_of(dlerror());
    while (s.len && s.ptr[s.len - 1] == '\n') s.len--;
    return s;
}

rp_status cpu_module_load(hal_device *d, const char *path, hal_module **out, rp_error *err) {
    base_buf local;
    base_buf_init(&local, 0);
    rp_status st = RP_OK;
    hal_module *m = base_alloc(sizeof *m);
    /* Without a slash the loader would search its own folders. */
    base_buf_printf(&local, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (!m || local.failed) {
        st = rp_fail(err, RP_NOMEM, "no memory to load %s", path);
        goto out;
    }
    if (!base_sys_fails()) m->handle = dlopen(local.data, RTLD_NOW | RTLD_LOCAL);
    if (!m->handle) {
        base_str why = loader_error();
        st = rp_fail(err, RP_DEVICE, "code object %s cannot be loaded: %.*s", path, (int)why.len,
                     why.len ? why.ptr : "");
        goto out;
    }
    hal_note_module(d, path);
    *out = m;
    m = NULL;
out:
    base_buf_done(&local);
    base_free(m);
    return st;
}

rp_status cpu_module_symbol(hal_module *m, const char *name, hal_host_fn *out, rp_error *err) {
    void *p = dlsym(m->handle, name);
    if (!p) return rp_fail(err, RP_DEVICE, "code object has no kernel named %s", name);
    memcpy(out, &p, sizeof *out); /* ISO C has no cast from data to function pointers */
    return RP_OK;
}

void cpu_module_free(hal_module *m) {
    if (!m) return;
    (void)dlclose(m->handle);
    base_free(m);
}
