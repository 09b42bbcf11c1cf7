// libreprise from Rust: compiles and runs a small graph, then writes text with a model.
//
//     rustc -O -L LIBDIR reprise.rs && LD_LIBRARY_PATH=LIBDIR ./reprise [MODEL [PROMPT]]
//
// LIBDIR holds libreprise.so; after make install it is PREFIX/lib.
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

const F32: c_int = 0;

#[repr(C)]
struct Error {
    code: c_int,
    line: c_int,
    file: *const c_char,
    text: [c_char; 480],
}
// A number without a graph, or a size that a call gave.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dim { graph: *mut c_void, n: i64 }
#[repr(C)]
struct Shape { rank: u32, dim: [Dim; 6] }
#[repr(C)]
#[derive(Clone, Copy)]
struct Tensor { graph: *mut c_void, node: u32, id: u32 }
#[repr(C)]
struct Buffer { dtype: c_int, rank: u32, dim: [i64; 6], data: *mut c_void }
// The option structs end behind what is used here; size says so.
#[repr(C)]
struct EngineOptions { size: usize, model: *const c_char, config: *mut c_void }
#[repr(C)]
struct RequestOptions {
    size: usize,
    prompt: *const c_char,
    messages: *const c_void,
    n_messages: u32,
    prompt_ids: *const i32,
    n_prompt_ids: u32,
    raw: bool,
    max_tokens: u32,
}
#[repr(C)]
struct Answer {
    size: usize,
    id: u64,
    prompt_ids: *const i32,
    output_ids: *const i32,
    n_prompt_ids: u32,
    n_output_ids: u32,
    text: *const c_char,
    finish_reason: *const c_char,
}

#[link(name = "reprise")]
extern "C" {
    fn rp_graph_new(name: *const c_char) -> *mut c_void;
    fn rp_graph_free(g: *mut c_void);
    fn rp_symbol(g: *mut c_void, name: *const c_char, min: i64, max: i64) -> Dim;
    fn rp_input(g: *mut c_void, name: *const c_char, dtype: c_int, shape: Shape) -> Tensor;
    fn rp_mul(a: Tensor, b: Tensor) -> Tensor;
    fn rp_add_scalar(a: Tensor, s: f64) -> Tensor;
    fn rp_graph_finish(g: *mut c_void, out: *const Tensor, n: u32, err: *mut Error) -> c_int;
    fn rp_compile(g: *const c_void, config: *mut c_void, out: *mut *mut c_void, err: *mut Error) -> c_int;
    fn rp_compiled_run(c: *mut c_void, inputs: *const Buffer, n_inputs: u32, outputs: *mut Buffer,
                       n_outputs: u32, err: *mut Error) -> c_int;
    fn rp_compiled_free(c: *mut c_void);
    fn rp_config_new() -> *mut c_void;
    fn rp_config_free(config: *mut c_void);
    fn rp_config_set(config: *mut c_void, assignment: *const c_char, err: *mut Error) -> c_int;
    fn rp_config_set_olevel(config: *mut c_void, olevel: c_int, err: *mut Error) -> c_int;
    fn rp_engine_open(o: *const EngineOptions, out: *mut *mut c_void, err: *mut Error) -> c_int;
    fn rp_engine_submit(e: *mut c_void, r: *const RequestOptions, id: *mut u64, err: *mut Error) -> c_int;
    fn rp_engine_step(e: *mut c_void, more: *mut bool, err: *mut Error) -> c_int;
    fn rp_engine_result(e: *const c_void, id: u64, out: *mut Answer, err: *mut Error) -> c_int;
    fn rp_engine_close(e: *mut c_void);
}

/// A literal that ends in a zero byte, as C wants it.
fn name(z: &'static [u8]) -> *const c_char {
    z.as_ptr().cast()
}

fn text(p: *const c_char) -> String {
    unsafe { CStr::from_ptr(p).to_string_lossy().into_owned() }
}

/// Runs one call that takes an rp_error last; its text is the failure.
fn check(call: impl FnOnce(*mut Error) -> c_int) -> Result<(), String> {
    let mut err = Error { code: 0, line: 0, file: null(), text: [0; 480] };
    if call(&mut err) == 0 { Ok(()) } else { Err(text(err.text.as_ptr())) }
}

/// y = x * x + 1 with a symbolic number of rows.
unsafe fn graph() -> Result<(), String> {
    const COLUMNS: i64 = 5;
    let (g, config, mut compiled) = (rp_graph_new(name(b"rust\0")), rp_config_new(), null_mut());
    let rows = rp_symbol(g, name(b"B\0"), 1, 64);
    let (columns, none) = (Dim { graph: null_mut(), n: COLUMNS }, Dim { graph: null_mut(), n: 0 });
    let x = rp_input(g, name(b"x\0"), F32, Shape { rank: 2, dim: [rows, columns, none, none, none, none] });
    let y = rp_add_scalar(rp_mul(x, x), 1.0);
    let mut data: Vec<f32> = (0..3 * COLUMNS).map(|i| i as f32 / 10.0).collect();
    let mut got = vec![0f32; data.len()];
    let dim = [3, COLUMNS, 0, 0, 0, 0];
    let input = Buffer { dtype: F32, rank: 2, dim, data: data.as_mut_ptr().cast() };
    let mut output = Buffer { dtype: F32, rank: 2, dim, data: got.as_mut_ptr().cast() };
    let done = check(|e| rp_graph_finish(g, &y, 1, e))
        .and_then(|_| check(|e| rp_config_set(config, name(b"level=2\0"), e)))
        .and_then(|_| check(|e| rp_compile(g, config, &mut compiled, e)))
        .and_then(|_| check(|e| rp_compiled_run(compiled, &input, 1, &mut output, 1, e)));
    rp_compiled_free(compiled);
    rp_config_free(config);
    rp_graph_free(g);
    done?;
    if data.iter().zip(&got).any(|(x, y)| x * x + 1.0 != *y) {
        return Err(format!("graph: {data:?} gave {got:?}"));
    }
    Ok(println!("graph: {} values as computed by Rust", got.len()))
}

unsafe fn answer(e: *mut c_void, prompt: *const c_char) -> Result<(), String> {
    let (mut id, mut more, mut r) = (0, true, std::mem::zeroed::<Answer>());
    let mut o: RequestOptions = std::mem::zeroed();
    (o.size, o.prompt, o.max_tokens) = (std::mem::size_of::<RequestOptions>(), prompt, 24);
    check(|err| rp_engine_submit(e, &o, &mut id, err))?;
    while more {
        check(|err| rp_engine_step(e, &mut more, err))?;
    }
    r.size = std::mem::size_of::<Answer>();
    check(|err| rp_engine_result(e, id, &mut r, err))?;
    Ok(println!("{} tokens, {}\n{}", r.n_output_ids, text(r.finish_reason), text(r.text)))
}

fn main() -> Result<(), String> {
    let mut args = std::env::args().skip(1).map(|a| CString::new(a).unwrap());
    let model = args.next().unwrap_or(CString::new("synthetic:tiny").unwrap());
    let prompt = args.next().unwrap_or(CString::new("The sea").unwrap());
    unsafe {
        graph()?;
        let (config, mut engine) = (rp_config_new(), null_mut());
        check(|e| rp_config_set_olevel(config, 2, e))?;
        let o = EngineOptions { size: std::mem::size_of::<EngineOptions>(), model: model.as_ptr(), config };
        check(|e| rp_engine_open(&o, &mut engine, e))?;
        let done = answer(engine, prompt.as_ptr());
        rp_engine_close(engine);
        done
    }
}
