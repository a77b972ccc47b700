//! Errors of the crate.

use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_int;

use crate::sys;

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The runtime returned an error: a damaged file, a failed call.
    Runtime(String),
    /// An argument or a value does not have the expected type or size.
    Argument(String),
    /// A function, an input or an output does not exist.
    Missing(String),
    /// The runtime library cannot be opened.
    Library(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The text of the error.
    pub fn message(&self) -> &str {
        match self {
            Error::Runtime(text) | Error::Argument(text) | Error::Missing(text) | Error::Library(text) => text,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.message())
    }
}

impl std::error::Error for Error {}

/// Converts the status of a call of the C interface to a result.
pub(crate) fn check(runtime: &sys::Functions, status: c_int) -> Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(Error::Runtime(unsafe { text_at((runtime.TVMGetLastError)()) })),
    }
}

/// # Safety
/// `text` is null or a C string that ends with a zero byte.
pub(crate) unsafe fn text_at(text: *const std::os::raw::c_char) -> String {
    match text.is_null() {
        true => String::new(),
        false => CStr::from_ptr(text).to_string_lossy().into_owned(),
    }
}
