//! Takes a secret out of an answer again, should a host say it back.
//!
//! What a secret looked like on its way out, byte for byte, becomes as many stars on the way in. A host that changes it first
//! can still say it: this is against carelessness, not against the host, which has the secret anyway.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::body::{Body as HttpBody, Bytes, Frame};
use hyper::header::{HeaderMap, HeaderValue};
use memchr::memmem;
use zeroize::Zeroizing;

use super::inject::percent_encode;
use super::{Injection, Secret};
use crate::request::{Body, BodyError};

/// A shorter one would be met by chance everywhere.
const SHORTEST: usize = 6;

/// The forms in which secrets went out with one request.
#[derive(Default)]
pub(crate) struct Mask {
    forms: Vec<Zeroizing<Vec<u8>>>,
}

impl Mask {
    /// Remembers the forms of a secret that went out.
    pub(super) fn add(&mut self, secret: &Secret, injection: &Injection) {
        let mut forms = vec![Zeroizing::new(secret.expose().as_bytes().to_vec())];
        let encoded = percent_encode(secret.expose());
        forms.push(Zeroizing::new(encoded.as_bytes().to_vec()));
        forms.push(Zeroizing::new(with_small_digits(encoded.as_bytes())));
        if let Ok(text) = serde_json::to_vec(secret.expose()) {
            let text = Zeroizing::new(text);
            let inner =
                text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or_default();
            forms.push(Zeroizing::new(inner.to_vec()));
            // As some write a slash.
            forms.push(Zeroizing::new(inner.iter().flat_map(escaped_slash).copied().collect()));
        }
        if let Injection::Basic { user } = injection {
            forms.push(Zeroizing::new(super::inject::basic(user, secret).as_bytes().to_vec()));
        }
        forms.retain(|form| form.len() >= SHORTEST);
        self.forms.extend(forms);
        self.forms.sort_unstable_by(|one, other| one.as_slice().cmp(other.as_slice()));
        self.forms.dedup();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub(crate) fn headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut bytes = value.as_bytes().to_vec();
            if self.cover(&mut bytes) {
                *value = HeaderValue::from_bytes(&bytes).unwrap_or_else(|_odd| HeaderValue::from_static("*"));
            }
        }
    }

    /// Puts stars over every form; whether there was one.
    fn cover(&self, bytes: &mut [u8]) -> bool {
        let mut found = false;
        for form in &self.forms {
            let places: Vec<usize> = memmem::find_iter(bytes, form.as_slice()).collect();
            for place in places {
                if let Some(part) = bytes.get_mut(place..place + form.len()) {
                    part.fill(b'*');
                    found = true;
                }
            }
        }
        found
    }

    /// How many bytes at the end may be the beginning of a form.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let longest = |form: &Zeroizing<Vec<u8>>| {
            let most = form.len().saturating_sub(1).min(bytes.len());
            (1..=most).rev().find(|count| form.get(..*count).is_some_and(|begin| bytes.ends_with(begin)))
        };
        self.forms.iter().filter_map(longest).max().unwrap_or(0)
    }
}

fn escaped_slash(byte: &u8) -> &[u8] {
    if *byte == b'/' { br"\/" } else { std::slice::from_ref(byte) }
}

/// The same with `%2f` for `%2F`.
fn with_small_digits(encoded: &[u8]) -> Vec<u8> {
    let mut small = encoded.to_vec();
    let places: Vec<usize> = memchr::memchr_iter(b'%', encoded).collect();
    for place in places {
        if let Some(digits) = small.get_mut(place..place + 3) {
            digits.make_ascii_lowercase();
        }
    }
    small
}

/// A body with stars over the secrets in it, also over one that is cut in two.
pub(crate) struct Masked {
    inner: Body,
    mask: Mask,
    /// What may be the beginning of a secret, and waits for the rest.
    held: Vec<u8>,
    ended: bool,
}

impl Masked {
    pub(crate) fn new(inner: Body, mask: Mask) -> Masked {
        Masked { inner, mask, held: Vec::new(), ended: false }
    }
}

impl HttpBody for Masked {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => frame.into_data().ok(),
                None => None,
            };
            let ready = match frame {
                Some(data) => {
                    let mut bytes = std::mem::take(&mut self.held);
                    bytes.extend_from_slice(&data);
                    self.mask.cover(&mut bytes);
                    let kept = bytes.len() - self.mask.open_end(&bytes);
                    self.held = bytes.split_off(kept);
                    bytes
                }
                // Whatever was held was no secret. Trailers are not passed on: nobody has looked at them.
                None => {
                    self.ended = true;
                    std::mem::take(&mut self.held)
                }
            };
            if !ready.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(ready)))));
            }
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        let mut hint = self.inner.size_hint();
        let held = u64::try_from(self.held.len()).unwrap_or(0);
        if let Some(exact) = hint.exact() {
            hint.set_exact(exact + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn mask(secret: &str, injection: &Injection) -> Mask {
        let mut mask = Mask::default();
        mask.add(&Secret::new(secret.into()), injection);
        mask
    }

    /// A body in pieces.
    struct Pieces(VecDeque<&'static str>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
        }
    }

    async fn through(pieces: &[&'static str], mask: Mask) -> String {
        let body = Pieces(pieces.iter().copied().collect()).boxed_unsync();
        let masked = Masked::new(body, mask).collect().await.unwrap().to_bytes();
        String::from_utf8(masked.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_secret_in_a_body_is_covered_however_it_is_cut() {
        let whole = "a=s3cr3t-value; b=s3cr3t-val, c=s3cr3t-values3";
        let wanted = "a=************; b=s3cr3t-val, c=************s3";
        assert_eq!(through(&[whole], mask("s3cr3t-value", &Injection::Bearer)).await, wanted);
        let bytes: Vec<&'static str> = whole.split_inclusive(|_| true).collect();
        assert_eq!(through(&bytes, mask("s3cr3t-value", &Injection::Bearer)).await, wanted);
    }

    #[tokio::test]
    async fn its_other_forms_are_covered_as_well() {
        let basic = Injection::Basic { user: "me".into() };
        assert_eq!(
            through(&["Basic bWU6czNjcjN0LXZhbHVl."], mask("s3cr3t-value", &basic))
                .await
                .matches('*')
                .count(),
            20
        );
        let odd = mask("s\"cret &", &Injection::Query { name: "k".into() });
        assert_eq!(
            through(&["s%22cret%20%26 s\\\"cret & s\"cret &"], odd).await,
            "************** ********* ********"
        );
    }

    #[tokio::test]
    async fn what_is_no_beginning_of_a_secret_does_not_wait() {
        let mut masked = Masked::new(
            Full::new(Bytes::from_static(b"data: 1\n\n")).map_err(|never| match never {}).boxed_unsync(),
            mask("s3cr3t-value", &Injection::Bearer),
        );
        let first = masked.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.as_ref(), b"data: 1\n\n");
    }

    #[test]
    fn a_secret_is_known_however_it_is_escaped() {
        let mask = mask("a/b+c/s3cr3t", &Injection::Bearer);
        for said in ["a/b+c/s3cr3t", r"a\/b+c\/s3cr3t", "a%2Fb%2Bc%2Fs3cr3t", "a%2fb%2bc%2fs3cr3t"] {
            let mut bytes = said.as_bytes().to_vec();
            assert!(mask.cover(&mut bytes) && bytes.iter().all(|byte| *byte == b'*'), "{said}");
        }
    }

    #[test]
    fn headers_are_covered() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("Bearer s3cr3t-value"));
        headers.insert("x-other", HeaderValue::from_static("plain"));
        mask("s3cr3t-value", &Injection::Bearer).headers(&mut headers);
        assert_eq!(
            (&headers["x-echo"], &headers["x-other"]),
            (&HeaderValue::from_static("Bearer ************"), &HeaderValue::from_static("plain"))
        );
    }
}
