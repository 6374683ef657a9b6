//! A value that nobody is to see.

use std::fmt;

use zeroize::Zeroizing;

/// A secret. It is zeroed when it is dropped, and does not print itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a value; the text is moved, not copied.
    pub fn new(value: String) -> Secret {
        Secret(Zeroizing::new(value))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
