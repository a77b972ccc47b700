//! Devices, data types and tensors.

use std::fmt;
use std::mem::size_of_val;
use std::ptr::NonNull;

use crate::error::{check, Error, Result};
use crate::sys;

/// A device that contains tensors and runs functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(pub(crate) sys::DLDevice);

impl Device {
    /// The device with this type (`DLDeviceType`) and index.
    pub const fn new(device_type: i32, device_id: i32) -> Device {
        Device(sys::DLDevice { device_type, device_id })
    }
    /// The CPU.
    pub const fn cpu() -> Device {
        Device::new(1, 0)
    }
    /// The CUDA device (NVIDIA GPU) with this index.
    pub const fn cuda(device_id: i32) -> Device {
        Device::new(2, device_id)
    }
    /// The OpenCL device with this index.
    pub const fn opencl(device_id: i32) -> Device {
        Device::new(4, device_id)
    }
    /// The device type (`DLDeviceType`).
    pub const fn device_type(self) -> i32 {
        self.0.device_type
    }
    /// The index among the devices of this type.
    pub const fn device_id(self) -> i32 {
        self.0.device_id
    }
    /// Whether this machine has the device.
    pub fn exists(self) -> Result<bool> {
        Ok(unsafe { (sys::functions()?.TVMDeviceExists)(self.0) } != 0)
    }
    /// Blocks until the device has finished its work.
    pub fn synchronize(self) -> Result<()> {
        let runtime = sys::functions()?;
        check(runtime, unsafe { (runtime.TVMSynchronize)(self.device_type(), self.device_id(), std::ptr::null_mut()) })
    }
}

/// The type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType(pub(crate) sys::DLDataType);

impl DataType {
    /// The type with this code (`DLDataTypeCode`), number of bits and number of vector lanes.
    pub const fn new(code: u8, bits: u8, lanes: u16) -> DataType {
        DataType(sys::DLDataType { code, bits, lanes })
    }
    /// The type code (`DLDataTypeCode`).
    pub const fn code(self) -> u8 {
        self.0.code
    }
    /// The number of bits of one lane.
    pub const fn bits(self) -> u8 {
        self.0.bits
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ["int", "uint", "float", "handle", "bfloat"].get(usize::from(self.0.code)) {
            Some(name) => write!(out, "{name}{}", self.0.bits)?,
            None => write!(out, "type{}_{}", self.0.code, self.0.bits)?,
        }
        match self.0.lanes {
            1 => Ok(()),
            lanes => write!(out, "x{lanes}"),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type for tensor elements. Every bit pattern must be a valid value.
pub trait Element: Copy + Default + sealed::Sealed + 'static {
    /// The type of a tensor with these elements.
    const DATA_TYPE: DataType;
}

macro_rules! elements {
    ($($type:ty: $code:expr, $bits:expr;)*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DATA_TYPE: DataType = DataType::new($code, $bits, 1);
        })*
    };
}
elements! {
    i8: 0, 8; i16: 0, 16; i32: 0, 32; i64: 0, 64;
    u8: 1, 8; u16: 1, 16; u32: 1, 32; u64: 1, 64;
    f32: 2, 32; f64: 2, 64;
}

/// A tensor in the memory of a device. Its elements are read and written by copies; see [`Tensor::as_slice`] for access
/// without a copy.
pub struct Tensor {
    handle: NonNull<sys::DLTensor>,
}

// A tensor refers to no thread-local data, and the runtime counts its references atomically. It is not `Sync`, because
// a write through another reference to its memory may race with reads.
unsafe impl Send for Tensor {}

impl Tensor {
    /// Allocates a tensor of zeros.
    pub fn zeros(shape: &[i64], dtype: DataType, device: Device) -> Result<Tensor> {
        let made = Tensor::uninitialized(shape, dtype, device)?;
        let zeros = vec![0u8; made.byte_len()?];
        made.write_bytes(zeros.as_ptr(), zeros.len())?;
        Ok(made)
    }

    /// Allocates a tensor and copies the elements into it.
    pub fn from_slice<T: Element>(elements: &[T], shape: &[i64], device: Device) -> Result<Tensor> {
        let mut made = Tensor::uninitialized(shape, T::DATA_TYPE, device)?;
        made.copy_from_slice(elements)?;
        Ok(made)
    }

    fn uninitialized(shape: &[i64], dtype: DataType, device: Device) -> Result<Tensor> {
        let runtime = sys::functions()?;
        let ndim =
            i32::try_from(shape.len()).map_err(|_| Error::Argument("a tensor has too many dimensions".into()))?;
        let mut made = std::ptr::null_mut();
        check(runtime, unsafe { (runtime.TVMArrayAlloc)(shape.as_ptr(), ndim, dtype.0, device.0, &mut made) })?;
        unsafe { Tensor::from_handle(made) }
    }

    /// Takes ownership of a DLPack tensor of another library without a copy.
    ///
    /// # Safety
    /// `tensor` is a valid DLPack tensor. On an error, the caller still owns it.
    pub unsafe fn from_dlpack(tensor: *mut sys::DLManagedTensor) -> Result<Tensor> {
        let runtime = sys::functions()?;
        let mut made = std::ptr::null_mut();
        check(runtime, (runtime.TVMArrayFromDLPack)(tensor, &mut made))?;
        Tensor::from_handle(made)
    }

    /// Converts to a DLPack tensor for another library, which must call its `deleter`.
    pub fn into_dlpack(self) -> Result<*mut sys::DLManagedTensor> {
        let runtime = sys::functions()?;
        let mut made = std::ptr::null_mut();
        check(runtime, unsafe { (runtime.TVMArrayToDLPack)(self.as_ptr(), &mut made) })?;
        Ok(made)
    }

    /// Takes ownership of a reference to an array of the C interface.
    ///
    /// # Safety
    /// `handle` is null or an array, and the caller transfers ownership of one reference.
    pub(crate) unsafe fn from_handle(handle: *mut sys::DLTensor) -> Result<Tensor> {
        NonNull::new(handle)
            .map(|handle| Tensor { handle })
            .ok_or_else(|| Error::Runtime("the runtime returned no array".into()))
    }

    /// The handle for functions of the C interface, which borrow it.
    pub fn as_ptr(&self) -> *mut sys::DLTensor {
        self.handle.as_ptr()
    }

    fn head(&self) -> &sys::DLTensor {
        // The DLTensor struct of an array does not change after its creation.
        unsafe { self.handle.as_ref() }
    }

    /// The shape of the tensor.
    pub fn shape(&self) -> &[i64] {
        match usize::try_from(self.head().ndim) {
            Ok(ndim) if ndim > 0 => unsafe { std::slice::from_raw_parts(self.head().shape, ndim) },
            _ => &[],
        }
    }
    /// The data type of the elements.
    pub fn dtype(&self) -> DataType {
        DataType(self.head().dtype)
    }
    /// The device whose memory contains the tensor.
    pub fn device(&self) -> Device {
        Device(self.head().device)
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape().iter().map(|&extent| usize::try_from(extent).unwrap_or(0)).product()
    }
    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The size of the elements in bytes.
    pub fn byte_len(&self) -> Result<usize> {
        let runtime = sys::functions()?;
        let mut size = 0;
        check(runtime, unsafe { (runtime.TVMTensorByteSize)(self.as_ptr(), &mut size) })?;
        Ok(size)
    }

    fn check_elements<T: Element>(&self, count: usize) -> Result<()> {
        if self.dtype() != T::DATA_TYPE {
            return Err(Error::Argument(format!(
                "the tensor has elements of {}, not of {}",
                self.dtype(),
                T::DATA_TYPE
            )));
        }
        if self.len() != count {
            return Err(Error::Argument(format!("the tensor has {} elements, not {count}", self.len())));
        }
        Ok(())
    }

    fn write_bytes(&self, data: *const u8, size: usize) -> Result<()> {
        let runtime = sys::functions()?;
        check(runtime, unsafe { (runtime.TVMArrayCopyFromBytes)(self.as_ptr(), data.cast(), size) })
    }

    /// Writes all elements.
    pub fn copy_from_slice<T: Element>(&mut self, elements: &[T]) -> Result<()> {
        self.write(elements)
    }

    /// Writes all elements of a tensor argument that is an output of a Rust function.
    pub(crate) fn write<T: Element>(&self, elements: &[T]) -> Result<()> {
        self.check_elements::<T>(elements.len())?;
        self.write_bytes(elements.as_ptr().cast(), size_of_val(elements))
    }

    /// Reads all elements.
    pub fn copy_to_slice<T: Element>(&self, elements: &mut [T]) -> Result<()> {
        self.check_elements::<T>(elements.len())?;
        let runtime = sys::functions()?;
        let size = size_of_val(elements);
        check(runtime, unsafe { (runtime.TVMArrayCopyToBytes)(self.as_ptr(), elements.as_mut_ptr().cast(), size) })
    }

    /// Returns a copy of all elements in row-major order.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let mut elements = vec![T::default(); self.len()];
        self.copy_to_slice(&mut elements)?;
        Ok(elements)
    }

    /// Copies the tensor to a device.
    pub fn to(&self, device: Device) -> Result<Tensor> {
        let runtime = sys::functions()?;
        let made = Tensor::uninitialized(self.shape(), self.dtype(), device)?;
        check(runtime, unsafe { (runtime.TVMArrayCopyFromTo)(self.as_ptr(), made.as_ptr(), std::ptr::null_mut()) })?;
        Ok(made)
    }

    fn start<T: Element>(&self) -> Result<*mut T> {
        self.check_elements::<T>(self.len())?;
        if self.device() != Device::cpu() {
            return Err(Error::Argument(
                "the tensor is not in memory of the host; copy it to the CPU with to()".into(),
            ));
        }
        if !self.is_compact() {
            return Err(Error::Argument("the tensor has strides; use copy_to_slice".into()));
        }
        let offset = usize::try_from(self.head().byte_offset).unwrap_or(0);
        Ok(unsafe { self.head().data.cast::<u8>().add(offset) }.cast())
    }

    fn is_compact(&self) -> bool {
        let mut step = 1;
        self.head().strides.is_null()
            || self.shape().iter().enumerate().rev().all(|(i, &extent)| {
                let stride = unsafe { *self.head().strides.add(i) };
                let fits = extent == 1 || stride == step;
                step *= extent;
                fits
            })
    }

    /// The elements without a copy.
    ///
    /// # Safety
    /// Nothing writes to the memory of the tensor while the slice exists: no other tensor with the same memory, no
    /// function, and no other library with access through DLPack.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T]> {
        Ok(std::slice::from_raw_parts(self.start()?, self.len()))
    }

    /// The elements as a mutable slice, without a copy.
    ///
    /// # Safety
    /// Nothing reads or writes the memory of the tensor while the slice exists; see [`Tensor::as_slice`].
    pub unsafe fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        Ok(std::slice::from_raw_parts_mut(self.start()?, self.len()))
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        if let Ok(runtime) = sys::functions() {
            unsafe { (runtime.TVMArrayFree)(self.as_ptr()) };
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tensor({:?}, {}, {:?})", self.shape(), self.dtype(), self.device())
    }
}
