//! Libraries and compiled models.

use std::ffi::CString;
use std::fmt;
use std::os::raw::c_void;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

use crate::error::{check, text_at, Error, Result};
use crate::value::c_text;
use crate::{sys, PackedFunc};

/// A library or a compiled model. It is neither `Send` nor `Sync`; see [`PackedFunc`]:
///
/// ```compile_fail
/// fn sent<T: Send>() {}
/// sent::<tvm_classic::Module>();
/// ```
pub struct Module {
    handle: NonNull<c_void>,
}

impl Module {
    /// Loads a library (`.so`), an object file (`.o`), or a package of `tvmc compile` (`.tar`).
    pub fn load(path: impl AsRef<Path>) -> Result<Module> {
        let runtime = sys::functions()?;
        let name = CString::new(path.as_ref().as_os_str().as_bytes())
            .map_err(|_| Error::Argument("the name of the file contains a zero".into()))?;
        let mut made = std::ptr::null_mut();
        check(runtime, unsafe { (runtime.TVMModLoadFromFile)(name.as_ptr(), std::ptr::null(), &mut made) })?;
        unsafe { Module::from_handle(made) }
    }

    /// # Safety
    /// `handle` is null or a module, and the caller transfers ownership of one reference.
    pub(crate) unsafe fn from_handle(handle: *mut c_void) -> Result<Module> {
        let none = || Error::Runtime("the runtime returned no module".into());
        NonNull::new(handle).map(|handle| Module { handle }).ok_or_else(none)
    }

    /// The handle for functions of [`crate::sys`], which borrow it.
    pub fn as_handle(&self) -> sys::Handle {
        self.as_ptr()
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.handle.as_ptr()
    }

    /// The type of the module, such as `GraphExecutorFactory`, `VMExecutable` or `library`.
    pub fn type_key(&self) -> Result<String> {
        Ok(unsafe { text_at((sys::functions()?.TVMModTypeKey)(self.as_ptr())) })
    }

    /// Looks up a function of the module.
    pub fn function(&self, name: &str) -> Result<PackedFunc> {
        let runtime = sys::functions()?;
        let mut found = std::ptr::null_mut();
        check(runtime, unsafe { (runtime.TVMModGetFunction)(self.as_ptr(), c_text(name)?.as_ptr(), 0, &mut found) })?;
        if found.is_null() {
            return Err(Error::Missing(format!("the module has no function '{name}'")));
        }
        unsafe { PackedFunc::from_handle(found) }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(runtime) = sys::functions() {
            unsafe { (runtime.TVMModFree)(self.as_ptr()) };
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Module({}, {:p})", self.type_key().unwrap_or_default(), self.handle)
    }
}
