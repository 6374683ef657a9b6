//! How long those may take who take their time.

use std::time::Duration;

/// How long a connection, a body and the end of the server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The head of a request, from its first byte or from the request before it.
    pub head: Duration,
    /// The body of a request.
    pub body: Duration,
    /// What is under way when the server stops has this long to end by itself; then it is told to.
    pub drain: Duration,
    /// And this long for its last words.
    pub last_words: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: Duration::from_secs(15),
            body: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            last_words: Duration::from_secs(3),
        }
    }
}
