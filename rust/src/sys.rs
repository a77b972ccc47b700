//! The part of the runtime's C interface (`tvm_runtime.h`) that this crate uses.
//!
//! Its functions are in one table. They are linked if the crate was built with `TVM_CLASSIC_LIB_DIR`. Otherwise the first
//! use opens the library: the file or folder in the environment variable `TVM_LIBRARY_PATH`, or `libtvm_runtime.so` in
//! the search path of the dynamic loader.

#![allow(non_snake_case, missing_docs)]

use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Error;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDevice {
    pub device_type: i32,
    pub device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
pub struct DLManagedTensor {
    pub dl_tensor: DLTensor,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union TVMValue {
    pub v_int64: i64,
    pub v_float64: f64,
    pub v_handle: *mut c_void,
    pub v_str: *const c_char,
    pub v_type: DLDataType,
    pub v_device: DLDevice,
}

#[repr(C)]
pub struct TVMByteArray {
    pub data: *const c_char,
    pub size: usize,
}

/// The first fields of `TVMRuntimeTable`.
#[repr(C)]
pub struct RuntimeTable {
    pub abi_version: u32,
    pub size: u32,
}

pub const ABI_VERSION: u32 = 1;

pub mod code {
    use std::os::raw::c_int;
    pub const INT: c_int = 0;
    pub const UINT: c_int = 1;
    pub const FLOAT: c_int = 2;
    pub const NULL: c_int = 4;
    pub const DATA_TYPE: c_int = 5;
    pub const DEVICE: c_int = 6;
    pub const DL_TENSOR: c_int = 7;
    pub const OBJECT: c_int = 8;
    pub const MODULE: c_int = 9;
    pub const FUNCTION: c_int = 10;
    pub const STR: c_int = 11;
    pub const BYTES: c_int = 12;
    pub const ARRAY: c_int = 13;
    pub const BOOL: c_int = 15;
}

/// `kTVMObjectADT`.
pub const OBJECT_ADT: c_int = 1;

pub type Handle = *mut c_void;
pub type PackedCFunc =
    unsafe extern "C" fn(*mut TVMValue, *mut c_int, c_int, *mut TVMValue, *mut c_int, *mut c_void) -> c_int;
pub type Finalizer = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        /// The functions of the runtime.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        #[cfg(tvm_classic_linked)]
        fn open() -> Result<Functions, Error> {
            extern "C" {
                $(fn $name($($argument: $type),*) -> $result;)*
            }
            Ok(Functions { $($name,)* })
        }

        #[cfg(not(tvm_classic_linked))]
        fn open() -> Result<Functions, Error> {
            let library = dynamic::open()?;
            // The types match the header of the library; `functions` checks the version of the library.
            Ok(Functions {
                $($name: unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $result>(
                        dynamic::symbol(library, concat!(stringify!($name), "\0"))?)
                },)*
            })
        }
    };
}

functions! {
    fn TVMGetRuntimeTable() -> *const RuntimeTable;
    fn TVMGetLastError() -> *const c_char;
    fn TVMAPISetLastError(message: *const c_char) -> ();
    fn TVMFuncCreateFromCFunc(code: PackedCFunc, resource: *mut c_void, fin: Option<Finalizer>, out: *mut Handle) -> c_int;
    fn TVMFuncFree(function: Handle) -> c_int;
    fn TVMFuncCall(function: Handle, args: *mut TVMValue, codes: *mut c_int, count: c_int, ret: *mut TVMValue,
                   ret_code: *mut c_int) -> c_int;
    fn TVMFuncRegisterGlobal(name: *const c_char, function: Handle, replace: c_int) -> c_int;
    fn TVMFuncGetGlobal(name: *const c_char, out: *mut Handle) -> c_int;
    fn TVMFuncRemoveGlobal(name: *const c_char) -> c_int;
    fn TVMReturnBytes(data: *const c_char, size: usize, code: c_int, value: *mut TVMValue, ret_code: *mut c_int) -> c_int;
    fn TVMObjectFree(object: Handle) -> c_int;
    fn TVMObjectKind(object: Handle) -> c_int;
    fn TVMADTTag(object: Handle) -> i64;
    fn TVMADTSize(object: Handle) -> c_int;
    fn TVMADTField(object: Handle, index: c_int, out: *mut TVMValue, out_code: *mut c_int) -> c_int;
    fn TVMArrayAlloc(shape: *const i64, ndim: c_int, dtype: DLDataType, device: DLDevice, out: *mut *mut DLTensor) -> c_int;
    fn TVMArrayFree(array: *mut DLTensor) -> c_int;
    fn TVMArrayCopyFromBytes(array: *mut DLTensor, data: *const c_void, nbytes: usize) -> c_int;
    fn TVMArrayCopyToBytes(array: *const DLTensor, data: *mut c_void, nbytes: usize) -> c_int;
    fn TVMArrayCopyFromTo(from: *const DLTensor, to: *mut DLTensor, stream: *mut c_void) -> c_int;
    fn TVMArrayFromDLPack(from: *mut DLManagedTensor, out: *mut *mut DLTensor) -> c_int;
    fn TVMArrayToDLPack(from: *mut DLTensor, out: *mut *mut DLManagedTensor) -> c_int;
    fn TVMTensorByteSize(tensor: *const DLTensor, out: *mut usize) -> c_int;
    fn TVMDeviceExists(device: DLDevice) -> c_int;
    fn TVMSynchronize(device_type: c_int, device_id: c_int, stream: *mut c_void) -> c_int;
    fn TVMModLoadFromFile(path: *const c_char, format: *const c_char, out: *mut Handle) -> c_int;
    fn TVMModFree(module: Handle) -> c_int;
    fn TVMModTypeKey(module: Handle) -> *const c_char;
    fn TVMModGetFunction(module: Handle, name: *const c_char, imports: c_int, out: *mut Handle) -> c_int;
    fn TVMChecksum(data: *const c_void, size: usize) -> u64;
}

#[cfg(not(tvm_classic_linked))]
mod dynamic {
    use super::*;
    use std::env;
    use std::ffi::{CStr, CString, OsString};
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    extern "C" {
        fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
        fn dlerror() -> *const c_char;
    }
    const RTLD_NOW: c_int = 2;
    const FILE: &str = "libtvm_runtime.so";

    fn path() -> OsString {
        let given = env::var_os("TVM_LIBRARY_PATH").map(PathBuf::from);
        match given {
            Some(folder) if folder.is_dir() => folder.join(FILE).into(),
            Some(file) => file.into(),
            None => FILE.into(),
        }
    }

    pub fn open() -> Result<*mut c_void, Error> {
        let path = path();
        let shown = path.to_string_lossy().into_owned();
        let name =
            CString::new(path.into_vec()).map_err(|_| Error::Library("TVM_LIBRARY_PATH contains a zero".into()))?;
        let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if !library.is_null() {
            return Ok(library);
        }
        let why = unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy().into_owned();
        Err(Error::Library(format!("cannot open {shown}: {why}; set TVM_LIBRARY_PATH to the folder of {FILE}")))
    }

    pub unsafe fn symbol(library: *mut c_void, name: &str) -> Result<*mut c_void, Error> {
        let found = dlsym(library, name.as_ptr().cast());
        match found.is_null() {
            false => Ok(found),
            true => Err(Error::Library(format!(
                "the library has no function {}; it is of another version",
                name.trim_end_matches('\0')
            ))),
        }
    }
}

/// Returns the functions of the runtime. The first call looks them up in the library.
pub fn functions() -> Result<&'static Functions, Error> {
    static TABLE: AtomicPtr<Functions> = AtomicPtr::new(ptr::null_mut());
    let mut found = TABLE.load(Ordering::Acquire);
    if found.is_null() {
        let opened = open()?;
        let version = unsafe { (*(opened.TVMGetRuntimeTable)()).abi_version };
        if version != ABI_VERSION {
            return Err(Error::Library(format!(
                "the library has interface {version}, and this crate uses {ABI_VERSION}"
            )));
        }
        let made = Box::into_raw(Box::new(opened));
        found = match TABLE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                // Another thread has already published an equal table, and nothing refers to this one.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
    }
    // The published table is never freed, so references to it are valid for the life of the program.
    Ok(unsafe { &*found })
}
