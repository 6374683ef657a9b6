//! Names that look like other names: written for people to misread.

use idna::uts46::{AsciiDenyList, Hyphens, Uts46};
use unicode_security::{MixedScript, skeleton};

use super::host::Host;

/// The plain spelling of a name that looks like another one in the spelling that it was given in.
///
/// Whoever means it can write it so; whoever reads it sees that it is not what it looks like.
pub(super) fn misleading(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let plain = Host::parse(text).ok()?.to_string();
    let (shown, _) = Uts46::new().to_unicode(plain.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow);
    // Letters of two alphabets in a label, or of one that all look like Latin ones.
    let is_misleading = shown.is_ascii()
        || shown
            .split('.')
            .filter(|label| !label.is_ascii())
            .any(|label| !label.is_single_script() || skeleton(label).all(|character| character.is_ascii()));
    is_misleading.then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_names_of_every_language_are_no_lookalikes() {
        for name in
            ["münchen.de", "例え.jp", "ひらカタ漢.jp", "россия.рф", "ελλάδα.gr", "example.com", "café.fr"]
        {
            assert_eq!(misleading(name), None, "{name}");
        }
    }

    #[test]
    fn lookalikes_are_told_with_their_plain_spelling() {
        assert_eq!(misleading("pаypal.com").as_deref(), Some("xn--pypal-4ve.com"));
        assert_eq!(misleading("аррӏе.com").as_deref(), Some("xn--80ak6aa92e.com"));
        assert_eq!(misleading("ｇithub.com").as_deref(), Some("github.com"));
        assert_eq!(misleading("github。com").as_deref(), Some("github.com"));
    }
}
