//! Bundles: files with a compiled model, its weights and its runtime. They do not need the runtime library.

use std::ffi::{CStr, CString};
use std::fs;
use std::mem::size_of_val;
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};

use crate::error::text_at;
use crate::{Element, Error, Result};

/// `tvm_bundle_tensor`.
#[repr(C)]
struct RawTensor {
    name: *const c_char,
    dtype: *const c_char,
    ndim: i32,
    itemsize: i32,
    shape: *const i64,
    nbytes: u64,
}

/// `tvm_bundle_info`.
#[repr(C)]
#[doc(hidden)]
pub struct RawInfo {
    abi_version: u32,
    size: u32,
    model: *const c_char,
    input_count: i32,
    output_count: i32,
    inputs: *const RawTensor,
    outputs: *const RawTensor,
    weight_bytes: u64,
    uses_threads: i32,
    is_dynamic: i32,
}

const ABI_VERSION: u32 = 1;
const FAILED: c_int = -8;
const BUSY: c_int = -7;

type Handle = *mut c_void;

/// The functions of a bundle. [`linked_bundle`](crate::linked_bundle) creates it for a bundle that is linked into the
/// program.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct BundleApi {
    pub info: *const RawInfo,
    pub create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub set_input: unsafe extern "C" fn(Handle, c_int, *const c_void, u64, *const i64) -> c_int,
    pub run: unsafe extern "C" fn(Handle) -> c_int,
    pub get_output: unsafe extern "C" fn(Handle, c_int, *mut *const c_void, *mut u64, *mut *const i64) -> c_int,
    pub error: unsafe extern "C" fn(Handle) -> *const c_char,
    pub destroy: unsafe extern "C" fn(Handle),
}

/// Declares the functions of a bundle that is linked into the program and returns its [`BundleApi`]. The argument is the
/// prefix of its names, such as `"tvm_bundle"`. The program's `build.rs` links the static library.
#[macro_export]
macro_rules! linked_bundle {
    ($prefix:literal) => {{
        use std::os::raw::{c_char, c_int, c_void};
        extern "C" {
            #[link_name = concat!($prefix, "_description")]
            static DESCRIPTION: [u8; 0];
            #[link_name = concat!($prefix, "_create")]
            fn create(out: *mut *mut c_void) -> c_int;
            #[link_name = concat!($prefix, "_set_input")]
            fn set_input(h: *mut c_void, index: c_int, data: *const c_void, nbytes: u64, shape: *const i64) -> c_int;
            #[link_name = concat!($prefix, "_run")]
            fn run(h: *mut c_void) -> c_int;
            #[link_name = concat!($prefix, "_get_output")]
            fn get_output(
                h: *mut c_void,
                index: c_int,
                data: *mut *const c_void,
                nbytes: *mut u64,
                shape: *mut *const i64,
            ) -> c_int;
            #[link_name = concat!($prefix, "_error")]
            fn error(h: *mut c_void) -> *const c_char;
            #[link_name = concat!($prefix, "_destroy")]
            fn destroy(h: *mut c_void);
        }
        let info = unsafe { DESCRIPTION.as_ptr() };
        $crate::BundleApi { info: info.cast(), create, set_input, run, get_output, error, destroy }
    }};
}

/// An input or an output of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleTensor {
    /// The name.
    pub name: String,
    /// The data type, such as `float32`.
    pub dtype: String,
    /// The dimensions; -1 is dynamic.
    pub shape: Vec<i64>,
}

impl BundleTensor {
    unsafe fn all(tensors: *const RawTensor, count: i32) -> Vec<BundleTensor> {
        let one = |raw: &RawTensor| BundleTensor {
            name: text_at(raw.name),
            dtype: text_at(raw.dtype),
            shape: std::slice::from_raw_parts(raw.shape, raw.ndim as usize).to_vec(),
        };
        (0..count as usize).map(|i| one(&*tensors.add(i))).collect()
    }

    /// Checks the type of elements; a bool is stored as u8.
    fn check_type<T: Element>(&self) -> Result<()> {
        let found = T::DATA_TYPE.to_string();
        match found == self.dtype || (found == "uint8" && self.dtype == "bool") {
            true => Ok(()),
            false => Err(Error::Argument(format!("'{}' has type {}, not {found}", self.name, self.dtype))),
        }
    }
}

/// A model of a bundle with separate inputs and outputs.
pub struct Bundle {
    api: BundleApi,
    handle: NonNull<c_void>,
    inputs: Vec<BundleTensor>,
    outputs: Vec<BundleTensor>,
}

// The handle has no state of a thread. The bundle is not `Sync`, because a run writes its memory.
unsafe impl Send for Bundle {}

impl Bundle {
    /// Opens a shared bundle. `model` is the name of the model (`--module-name`), by default `"default"`.
    pub fn open(path: impl AsRef<Path>, model: &str) -> Result<Bundle> {
        let api = open(path.as_ref(), model)?;
        unsafe { Bundle::create(api) }
    }

    /// Creates a model of a bundle that is linked into the program.
    ///
    /// # Safety
    /// `api` was returned by [`linked_bundle`](crate::linked_bundle) for the prefix of a bundle.
    pub unsafe fn linked(api: BundleApi) -> Result<Bundle> {
        Bundle::create(api)
    }

    unsafe fn create(api: BundleApi) -> Result<Bundle> {
        let mut handle = null_mut();
        let status = (api.create)(&mut handle);
        let info = &*api.info;
        match NonNull::new(handle) {
            Some(handle) if status == 0 => Ok(Bundle {
                api,
                handle,
                inputs: BundleTensor::all(info.inputs, info.input_count),
                outputs: BundleTensor::all(info.outputs, info.output_count),
            }),
            _ => Err(Error::Runtime(text_at((api.error)(null_mut())))),
        }
    }

    /// The inputs.
    pub fn inputs(&self) -> &[BundleTensor] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[BundleTensor] {
        &self.outputs
    }

    /// The index of an input by its name.
    pub fn input_index(&self, name: &str) -> Result<usize> {
        let found = self.inputs.iter().position(|input| input.name == name);
        found.ok_or_else(|| Error::Missing(format!("the model has no input '{name}'")))
    }

    /// Copies an input. Without a shape, the input must have static dimensions.
    pub fn set_input<T: Element>(&mut self, index: usize, data: &[T], shape: Option<&[i64]>) -> Result<()> {
        if let Some(input) = self.inputs.get(index) {
            input.check_type::<T>()?;
            if let Some(shape) = shape.filter(|shape| shape.len() != input.shape.len()) {
                let (name, wanted, got) = (&input.name, input.shape.len(), shape.len());
                return Err(Error::Argument(format!("input '{name}' has {wanted} dimensions, got {got}")));
            }
        }
        let shape = shape.map_or(null(), <[i64]>::as_ptr);
        let bytes = size_of_val(data) as u64;
        self.check(unsafe { (self.api.set_input)(self.raw(), number(index), data.as_ptr().cast(), bytes, shape) })
    }

    /// Runs the model with the inputs that were set.
    pub fn run(&mut self) -> Result<()> {
        self.check(unsafe { (self.api.run)(self.raw()) })
    }

    /// Copies an output of the last run.
    pub fn output<T: Element>(&self, index: usize) -> Result<Vec<T>> {
        if let Some(output) = self.outputs.get(index) {
            output.check_type::<T>()?;
        }
        let (data, nbytes, _) = self.raw_output(index)?;
        let mut found = vec![T::default(); nbytes as usize / std::mem::size_of::<T>()];
        unsafe { std::ptr::copy_nonoverlapping(data.cast(), found.as_mut_ptr(), found.len()) };
        Ok(found)
    }

    /// The shape of an output of the last run.
    pub fn output_shape(&self, index: usize) -> Result<Vec<i64>> {
        let (_, _, shape) = self.raw_output(index)?;
        Ok(unsafe { std::slice::from_raw_parts(shape, self.outputs[index].shape.len()) }.to_vec())
    }

    fn raw_output(&self, index: usize) -> Result<(*const c_void, u64, *const i64)> {
        let (mut data, mut nbytes, mut shape) = (null(), 0, null());
        let status = unsafe { (self.api.get_output)(self.raw(), number(index), &mut data, &mut nbytes, &mut shape) };
        self.check(status).map(|()| (data, nbytes, shape))
    }

    fn raw(&self) -> Handle {
        self.handle.as_ptr()
    }

    fn check(&self, status: c_int) -> Result<()> {
        let text = || unsafe { text_at((self.api.error)(if status == BUSY { null_mut() } else { self.raw() })) };
        match status {
            0 => Ok(()),
            FAILED | BUSY => Err(Error::Runtime(text())),
            _ => Err(Error::Argument(text())),
        }
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        unsafe { (self.api.destroy)(self.raw()) }
    }
}

/// An index for the C interface, which rejects numbers that are too large.
fn number(index: usize) -> c_int {
    c_int::try_from(index).unwrap_or(c_int::MAX)
}

// ---- opening ----

extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}
const RTLD_NOW: c_int = 2;

fn mix(state: u64, word: u64) -> u64 {
    let state = (state ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state ^ state >> 32
}

/// The checksum of `tvm/checksum.h`.
fn checksum(data: &[u8]) -> u64 {
    const LANES: usize = 4;
    let mut lanes = [0; LANES];
    for (i, lane) in lanes.iter_mut().enumerate() {
        *lane = mix(data.len() as u64, 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(i as u64 + 1));
    }
    let steps = data.chunks_exact(8 * LANES);
    let rest = steps.remainder();
    for step in steps {
        for (lane, word) in lanes.iter_mut().zip(step.chunks_exact(8)) {
            *lane = mix(*lane, u64::from_ne_bytes(word.try_into().expect("8 bytes")));
        }
    }
    let combined = lanes[1..].iter().fold(lanes[0], |state, &lane| mix(state, lane));
    rest.iter().fold(combined, |state, &byte| mix(state, u64::from(byte)))
}

/// Checks a file before the system loads it, because loading a damaged library could crash the process.
fn check_file(path: &Path) -> std::result::Result<(), String> {
    const TAIL: usize = 16;
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    let covered = bytes.len().checked_sub(TAIL).ok_or("the file is corrupt: it has no checksum")?;
    if &bytes[covered..covered + 8] != b"TVMSEAL2" {
        return Err("the file is corrupt: it has no checksum".into());
    }
    match bytes[covered + 8..] == checksum(&bytes[..covered]).to_ne_bytes() {
        true => Ok(()),
        false => Err("the file is corrupt: its checksum does not match".into()),
    }
}

fn load(path: &Path) -> std::result::Result<*mut c_void, String> {
    check_file(path)?;
    // The dynamic loader searches for names without a slash.
    let full = fs::canonicalize(path).map_err(|error| error.to_string())?;
    let name = CString::new(full.as_os_str().as_bytes()).map_err(|_| "the path contains a zero byte".to_string())?;
    let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
    match library.is_null() {
        true => Err(unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy().into_owned()),
        false => Ok(library),
    }
}

/// # Safety
/// `F` is the type of the function at this address.
unsafe fn function<F: Copy>(address: *mut c_void) -> F {
    std::mem::transmute_copy(&address)
}

/// Opens a shared bundle, which stays loaded until the program ends.
fn open(path: &Path, model: &str) -> Result<BundleApi> {
    let fail = |why: String| Error::Library(format!("cannot open bundle '{}': {why}", path.display()));
    let library = load(path).map_err(fail)?;
    let prefix = if model == "default" { "tvm_bundle".into() } else { format!("tvm_bundle_{model}") };
    let symbol = |name: &str| {
        let symbol = CString::new(format!("{prefix}_{name}")).ok();
        let found = symbol.map_or(null_mut(), |symbol| unsafe { dlsym(library, symbol.as_ptr()) });
        NonNull::new(found).ok_or_else(|| fail(format!("it does not contain the model '{model}'"))).map(NonNull::as_ptr)
    };
    // The types are those of the header of a bundle, and the version is checked below.
    let api = unsafe {
        BundleApi {
            info: symbol("description")?.cast(),
            create: function(symbol("create")?),
            set_input: function(symbol("set_input")?),
            run: function(symbol("run")?),
            get_output: function(symbol("get_output")?),
            error: function(symbol("error")?),
            destroy: function(symbol("destroy")?),
        }
    };
    match unsafe { (*api.info).abi_version } {
        ABI_VERSION => Ok(api),
        found => Err(fail(format!("it has interface {found}, this crate supports {ABI_VERSION}"))),
    }
}
