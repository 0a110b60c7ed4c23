//! The versions of what this library is made of.

use crate::abi::{guard, Buffer, Status};

const VERSIONS: &str =
    concat!("tokenizers ", env!("VERSION_TOKENIZERS"), "\nminijinja ", env!("VERSION_MINIJINJA"), "\n");

#[no_mangle]
unsafe extern "C" fn rp_versions(text: *mut Buffer) -> Status {
    guard(text, || {
        text.write(Buffer::new(VERSIONS.into()));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_the_pinned_ones() {
        assert_eq!(super::VERSIONS, "tokenizers 0.23.2\nminijinja 3.1.0\n");
    }
}
