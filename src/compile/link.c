/* Links one relocatable ELF object of x86-64 to a shared object.
 *
 * Generated code calls nobody, so its references are distances within itself, and its only names are those of its kernels. What is more
 * than that (a call of memset, a table of addresses) is left to a linker, which takes longer to start than this takes in all.
 *
 * The image: header, program headers, names of the kernels (DT_HASH, DT_SYMTAB, DT_STRTAB), code and constants, which is one
 * segment that nobody writes; at the next page the dynamic section and data. Addresses are offsets in the file. Unwind tables and
 * notes are left out: no loader finds them without a header of their own. */
#include "compile/link.h"

#include <elf.h>
#include <string.h>

#include "base/alloc.h"

enum { PAGE = 4096, N_SEGMENTS = 4, N_DYNAMIC = 6 };

typedef struct linker {
    const uint8_t *in;
    size_t in_size;
    Elf64_Ehdr head;
    Elf64_Shdr *sections; /* head.e_shnum */
    uint64_t *at;         /* by section: its address, 0: not in the image */
    Elf64_Sym *symbols;
    uint32_t n_symbols, n_exports;
    const char *names; /* of symbols, which end within names_size */
    uint64_t names_size, export_bytes;
    uint64_t hash, dynsym, dynstr, code_end, dynamic, data_end, memory_end;
    uint8_t *image; /* data_end bytes */
    rp_error *err;
} linker;

static rp_status refuse(const linker *l, const char *what) {
    return rp_fail(l->err, RP_UNSUPPORTED, "not linked here: %s", what);
}

static bool inside(const linker *l, uint64_t offset, uint64_t size) {
    return offset <= l->in_size && size <= l->in_size - offset;
}

static uint64_t align_up(uint64_t n, uint64_t to) {
    return to > 1 ? (n + to - 1) & ~(to - 1) : n;
}

/* --- reading ---------------------------------------------------------------------- */

static rp_status read_head(linker *l) {
    static const uint8_t magic[] = {ELFMAG0,    ELFMAG1,     ELFMAG2,   ELFMAG3,
                                    ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    if (l->in_size < sizeof l->head) return refuse(l, "no object file");
    memcpy(&l->head, l->in, sizeof l->head);
    if (memcmp(l->head.e_ident, magic, sizeof magic) != 0 || l->head.e_type != ET_REL ||
        l->head.e_machine != EM_X86_64)
        return refuse(l, "no object file of x86-64");
    const uint64_t n = l->head.e_shnum;
    if (l->head.e_shentsize != sizeof(Elf64_Shdr) || !n ||
        !inside(l, l->head.e_shoff, n * sizeof(Elf64_Shdr)))
        return refuse(l, "sections beyond the file");
    l->sections = base_alloc_array(n, sizeof *l->sections);
    l->at = base_alloc_array(n, sizeof *l->at);
    if (!l->sections || !l->at) return rp_fail(l->err, RP_NOMEM, "sections of an object");
    memcpy(l->sections, l->in + l->head.e_shoff, n * sizeof *l->sections);
    memset(l->at, 0, n * sizeof *l->at);
    return RP_OK;
}

static rp_status check_sections(const linker *l) {
    for (uint32_t i = 1; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type != SHT_NOBITS && !inside(l, s->sh_offset, s->sh_size))
            return refuse(l, "a section beyond the file");
        if (s->sh_addralign > PAGE || (s->sh_addralign & (s->sh_addralign - 1)) ||
            s->sh_size > UINT32_MAX)
            return refuse(l, "a section of odd size");
    }
    return RP_OK;
}

static rp_status read_symbols(linker *l) {
    const Elf64_Shdr *table = NULL;
    for (uint32_t i = 1; i < l->head.e_shnum; i++)
        if (l->sections[i].sh_type == SHT_SYMTAB) table = &l->sections[i];
    if (!table || table->sh_link >= l->head.e_shnum) return refuse(l, "no symbols");
    const Elf64_Shdr *names = &l->sections[table->sh_link];
    l->n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym));
    l->names = (const char *)l->in + names->sh_offset;
    l->names_size = names->sh_size;
    if (names->sh_type != SHT_STRTAB || !names->sh_size || l->names[names->sh_size - 1])
        return refuse(l, "no names");
    l->symbols = base_alloc_array(l->n_symbols + 1u, sizeof *l->symbols);
    if (!l->symbols) return rp_fail(l->err, RP_NOMEM, "symbols of an object");
    memcpy(l->symbols, l->in + table->sh_offset, l->n_symbols * sizeof *l->symbols);
    return RP_OK;
}

/* --- places ------------------------------------------------------------------------ */

static bool is_kept(const linker *l, const Elf64_Shdr *s) {
    const Elf64_Shdr *names = &l->sections[l->head.e_shstrndx];
    static const char unwind[] = ".eh_frame";
    if (!(s->sh_flags & SHF_ALLOC) || s->sh_type == SHT_NOTE) return false;
    return s->sh_name > names->sh_size || names->sh_size - s->sh_name < sizeof unwind ||
           memcmp(l->in + names->sh_offset + s->sh_name, unwind, sizeof unwind) != 0;
}

static bool is_known(const Elf64_Shdr *s) {
    const uint64_t flags = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS;
    return (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS) && !(s->sh_flags & ~flags) &&
           !((s->sh_flags & SHF_WRITE) && (s->sh_flags & SHF_EXECINSTR));
}

/* Sections with these of SHF_WRITE and bits in the file, from `at` on; the address behind them. */
static uint64_t place(linker *l, uint64_t at, uint64_t write, bool bits) {
    for (uint32_t i = 1; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (!is_kept(l, s) || (s->sh_flags & SHF_WRITE) != write ||
            (s->sh_type != SHT_NOBITS) != bits)
            continue;
        l->at[i] = align_up(at, s->sh_addralign);
        at = l->at[i] + s->sh_size;
    }
    return at;
}

static bool is_export(const linker *l, const Elf64_Sym *s) {
    return ELF64_ST_BIND(s->st_info) == STB_GLOBAL && s->st_shndx != SHN_UNDEF &&
           s->st_shndx < l->head.e_shnum && l->at[s->st_shndx] &&
           ELF64_ST_VISIBILITY(s->st_other) == STV_DEFAULT && s->st_name < l->names_size;
}

static rp_status place_all(linker *l) {
    if (l->head.e_shstrndx >= l->head.e_shnum) return refuse(l, "sections without names");
    for (uint32_t i = 1; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (is_kept(l, s) && !is_known(s)) return refuse(l, "a section of a kind of its own");
        if (is_kept(l, s)) l->at[i] = 1; /* for is_export */
    }
    for (uint32_t i = 1; i < l->n_symbols; i++) {
        if (!is_export(l, &l->symbols[i])) continue;
        l->n_exports++;
        l->export_bytes += strlen(l->names + l->symbols[i].st_name) + 1;
    }
    l->hash = sizeof(Elf64_Ehdr) + N_SEGMENTS * sizeof(Elf64_Phdr);
    /* one bucket, a chain */
    l->dynsym = align_up(l->hash + (2 + 1 + 1 + l->n_exports) * sizeof(uint32_t), 8);
    l->dynstr = l->dynsym + (1 + l->n_exports) * sizeof(Elf64_Sym);
    l->code_end = place(l, l->dynstr + 1 + l->export_bytes, 0, true);
    l->code_end = place(l, l->code_end, 0, false);
    l->dynamic = align_up(l->code_end, PAGE);
    l->data_end = place(l, l->dynamic + N_DYNAMIC * sizeof(Elf64_Dyn), SHF_WRITE, true);
    l->memory_end = place(l, l->data_end, SHF_WRITE, false);
    return l->memory_end > INT32_MAX ? refuse(l, "2 GB or more") : RP_OK;
}

/* --- bytes -------------------------------------------------------------------------- */

static rp_status apply(const linker *l, const Elf64_Shdr *where, uint64_t base,
                       const Elf64_Rela *r) {
    const uint64_t type = ELF64_R_TYPE(r->r_info), symbol = ELF64_R_SYM(r->r_info);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return refuse(l, "an address that is no distance");
    if (symbol >= l->n_symbols || where->sh_size < 4 || r->r_offset > where->sh_size - 4)
        return refuse(l, "a reference out of bounds");
    const Elf64_Sym *s = &l->symbols[symbol];
    if (s->st_shndx == SHN_UNDEF || s->st_shndx >= l->head.e_shnum || !l->at[s->st_shndx])
        return refuse(l, "a name of somebody else");
    const uint64_t to = l->at[s->st_shndx] + s->st_value + (uint64_t)r->r_addend;
    const int64_t far = (int64_t)(to - (base + r->r_offset));
    if (far < INT32_MIN || far > INT32_MAX) return refuse(l, "2 GB or more");
    const int32_t distance = (int32_t)far;
    memcpy(l->image + base + r->r_offset, &distance, sizeof distance);
    return RP_OK;
}

static rp_status relocate(const linker *l, const Elf64_Shdr *table) {
    if (table->sh_info >= l->head.e_shnum) return refuse(l, "references of no section");
    const uint64_t base = l->at[table->sh_info];
    if (!base) return RP_OK;
    const Elf64_Shdr *where = &l->sections[table->sh_info];
    if (table->sh_type == SHT_REL || where->sh_type == SHT_NOBITS)
        return refuse(l, "references of a kind of their own");
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, l->in + table->sh_offset + i * sizeof r, sizeof r);
        RP_TRY(apply(l, where, base, &r));
    }
    return RP_OK;
}

static rp_status write_sections(const linker *l) {
    for (uint32_t i = 1; i < l->head.e_shnum; i++)
        if (l->at[i] && l->sections[i].sh_type == SHT_PROGBITS)
            memcpy(l->image + l->at[i], l->in + l->sections[i].sh_offset, l->sections[i].sh_size);
    for (uint32_t i = 1; i < l->head.e_shnum; i++) {
        const Elf64_Shdr *s = &l->sections[i];
        if (s->sh_type == SHT_RELA || s->sh_type == SHT_REL) RP_TRY(relocate(l, s));
    }
    return RP_OK;
}

static void write_exports(const linker *l) {
    uint32_t *hash = (uint32_t *)(void *)(l->image + l->hash);
    Elf64_Sym *to = (Elf64_Sym *)(void *)(l->image + l->dynsym);
    char *names = (char *)l->image + l->dynstr;
    uint32_t n = 0, name = 1;
    hash[0] = 1;
    hash[1] = 1 + l->n_exports;
    hash[2] = l->n_exports ? 1 : 0;
    for (uint32_t i = 1; i < l->n_symbols; i++) {
        Elf64_Sym s = l->symbols[i];
        if (!is_export(l, &s)) continue;
        const char *z = l->names + s.st_name;
        s.st_value += l->at[s.st_shndx];
        s.st_shndx = 1; /* any: there are no section headers */
        s.st_name = name;
        memcpy(names + name, z, strlen(z) + 1);
        name += (uint32_t)strlen(z) + 1;
        to[++n] = s;
        hash[3 + n] = n < l->n_exports ? n + 1 : 0; /* the chain */
    }
}

static void write_dynamic(const linker *l) {
    const Elf64_Dyn all[N_DYNAMIC] = {{DT_HASH, {l->hash}},
                                      {DT_STRTAB, {l->dynstr}},
                                      {DT_SYMTAB, {l->dynsym}},
                                      {DT_STRSZ, {1 + l->export_bytes}},
                                      {DT_SYMENT, {sizeof(Elf64_Sym)}},
                                      {DT_NULL, {0}}};
    memcpy(l->image + l->dynamic, all, sizeof all);
}

static void write_head(const linker *l) {
    Elf64_Ehdr head = l->head;
    head.e_type = ET_DYN;
    head.e_entry = head.e_shoff = 0;
    head.e_phoff = sizeof head;
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = N_SEGMENTS;
    head.e_shnum = head.e_shstrndx = 0;
    const uint64_t from = l->dynamic, dynamic = N_DYNAMIC * sizeof(Elf64_Dyn);
    const uint64_t data = l->data_end - from, memory = l->memory_end - from;
    const Elf64_Phdr segments[N_SEGMENTS] = {
        {PT_LOAD, PF_R | PF_X, 0, 0, 0, l->code_end, l->code_end, PAGE},
        {PT_LOAD, PF_R | PF_W, from, from, from, data, memory, PAGE},
        {PT_DYNAMIC, PF_R | PF_W, from, from, from, dynamic, dynamic, 8},
        {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16}};
    memcpy(l->image, &head, sizeof head);
    memcpy(l->image + sizeof head, segments, sizeof segments);
}

static rp_status link_all(linker *l) {
    RP_TRY(read_head(l));
    RP_TRY(check_sections(l));
    RP_TRY(read_symbols(l));
    RP_TRY(place_all(l));
    l->image = base_alloc(l->data_end);
    if (!l->image) return rp_fail(l->err, RP_NOMEM, "code of %zu bytes", l->in_size);
    memset(l->image, 0, l->data_end);
    RP_TRY(write_sections(l));
    write_exports(l);
    write_dynamic(l);
    write_head(l);
    return RP_OK;
}

rp_status compile_link(const void *object, size_t size, base_buf *out, rp_error *err) {
    linker l = {.in = object, .in_size = size, .err = err};
    rp_status st = link_all(&l);
    if (st == RP_OK) base_buf_add(out, l.image, l.data_end);
    base_free(l.sections);
    base_free(l.at);
    base_free(l.symbols);
    base_free(l.image);
    return st == RP_OK ? base_buf_status(out, err) : st;
}
