//! What an issuer sends somebody back with.

use zeroize::Zeroizing;

/// What an issuer has sent somebody back with.
#[derive(Default)]
pub(super) struct Returned {
    pub(super) code: Option<Zeroizing<String>>,
    pub(super) state: Option<Zeroizing<String>>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

impl Returned {
    /// Nothing if a parameter is there twice.
    pub(super) fn read(query: &str) -> Option<Returned> {
        let mut returned = Returned::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = String::from_utf8(crate::credentials::percent_decode(value)).ok()?;
            let is_new = match name {
                "code" => returned.code.replace(Zeroizing::new(value)).is_none(),
                "state" => returned.state.replace(Zeroizing::new(value)).is_none(),
                "iss" => returned.issuer.replace(value).is_none(),
                "error" => {
                    let is_plain = |c: &char| c.is_ascii_lowercase() || *c == '_';
                    returned.error.replace(value.chars().filter(is_plain).take(64).collect()).is_none()
                }
                _ => true,
            };
            if !is_new {
                return None;
            }
        }
        Some(returned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_comes_back_with_is_read_once() {
        let returned = Returned::read("code=a%2Bb&state=s&iss=https%3A%2F%2Fi.test&x=1").unwrap();
        assert_eq!(returned.code.as_deref().map(String::as_str), Some("a+b"));
        assert_eq!(returned.issuer.as_deref(), Some("https://i.test"));
        assert!(Returned::read("code=a&code=b").is_none());
        assert!(Returned::read("state=a&state=a").is_none());
        assert_eq!(
            Returned::read("error=access_denied%0a<b>").unwrap().error.as_deref(),
            Some("access_deniedb")
        );
    }
}
