//! What every entry point shares: the status codes, buffers that C++ owns, and the guard against panics.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// RpStatus of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    Invalid = 1,
    Unsupported = 2,
    Raised = 3,
    Panic = 4,
}

/// Why an entry point failed; never `Status::Ok`.
#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl ToString) -> Self {
        Self { status: Status::Invalid, message: message.to_string() }
    }

    pub fn unsupported(message: impl ToString) -> Self {
        Self { status: Status::Unsupported, message: message.to_string() }
    }
}

/// RpBuffer or RpIds of the header: a boxed slice given away.
#[repr(C)]
pub struct Array<T> {
    data: *mut T,
    size: usize,
}

impl<T> Array<T> {
    pub fn new(items: Vec<T>) -> Self {
        let size = items.len();
        Self { data: Box::into_raw(items.into_boxed_slice()).cast(), size }
    }

    /// # Safety
    /// `self` must come from `new` and not have been freed, or hold a null pointer.
    unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.size)));
        }
    }
}

pub type Buffer = Array<u8>;
pub type Ids = Array<u32>;

#[no_mangle]
pub unsafe extern "C" fn rp_buffer_free(buffer: Buffer) {
    buffer.free();
}

#[no_mangle]
unsafe extern "C" fn rp_ids_free(ids: Ids) {
    ids.free();
}

/// Runs an entry point. A failure or a panic becomes a status and a message.
///
/// # Safety
/// `message` must be writable.
pub unsafe fn guard(message: *mut Buffer, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    silence_panics();
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::Ok,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure { status: Status::Panic, message: panic_message(payload.as_ref()) },
    };
    message.write(Buffer::new(failure.message.into_bytes()));
    failure.status
}

/// The guard reports panics to the caller, so printing them as well would only write beside the server's own log.
fn silence_panics() {
    static ONCE: Once = Once::new();
    if cfg!(test) {
        return; // failed assertions are panics too
    }
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the text library failed: {}", text.unwrap_or("unknown panic"))
}

/// # Safety
/// `data` must be readable for `size` bytes, unless `size` is 0.
pub unsafe fn bytes<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// `what` names the argument in the message.
///
/// # Safety
/// As `bytes`.
pub unsafe fn text<'a>(data: *const u8, size: usize, what: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes(data, size))
        .map_err(|error| Failure::invalid(format!("{what} is not valid UTF-8 at byte {}", error.valid_up_to())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(body: impl FnOnce() -> Result<(), Failure>) -> (Status, String) {
        let mut message = Buffer::new(Vec::new());
        let status = unsafe { guard(&mut message, body) };
        let text = unsafe { String::from_utf8_lossy(bytes(message.data, message.size)).into_owned() };
        unsafe { rp_buffer_free(message) };
        (status, text)
    }

    #[test]
    fn panics_of_every_kind_become_a_status() {
        assert_eq!(run(|| panic!("static")), (Status::Panic, "the text library failed: static".into()));
        assert_eq!(run(|| panic!("{}", 7)), (Status::Panic, "the text library failed: 7".into()));
        assert_eq!(run(|| std::panic::panic_any(7)), (Status::Panic, "the text library failed: unknown panic".into()));
    }

    #[test]
    fn failures_keep_their_message() {
        assert_eq!(run(|| Err(Failure::invalid("no"))), (Status::Invalid, "no".into()));
        assert_eq!(run(|| Ok(())), (Status::Ok, String::new()));
    }

    #[test]
    fn text_names_the_first_bad_byte() {
        let error = unsafe { text([b'a', 0xff].as_ptr(), 2, "the prompt") }.unwrap_err();
        assert_eq!(error.message, "the prompt is not valid UTF-8 at byte 1");
    }
}
