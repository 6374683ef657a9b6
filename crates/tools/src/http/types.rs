//! What goes into `http.request` and what comes out of it, and what its worker is told.

use std::collections::BTreeMap;

use contract::{HostPattern, Reach};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::Address;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpInput {
    /// The method: `GET` (the default), `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE` or `OPTIONS`.
    #[serde(default = "get")]
    pub(crate) method: String,
    /// The URL, `https://` or `http://`, without a user and without a fragment.
    pub(crate) url: String,
    /// Headers to set. Those that frame a request, such as `Host` and `Content-Length`, are written for you.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// What to send. Not with `GET` and `HEAD`.
    pub(crate) body: Option<String>,
    /// Whether `body` is the text itself (the default) or base64.
    #[serde(default)]
    pub(crate) body_encoding: BodyEncoding,
    /// Milliseconds for all of it, redirects too: at most 30000, which is the default.
    #[schemars(range(min = 1, max = 30000))]
    pub(crate) timeout_ms: Option<u64>,
    /// How many bytes of the answer to read at most. The default is 1048576.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: Option<u64>,
    /// How many redirects to follow, at most 5. The default is 5 for `GET` and `HEAD`, else 0.
    #[schemars(range(max = 5))]
    pub(crate) follow_redirects: Option<u8>,
}

fn get() -> String {
    "GET".to_owned()
}

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BodyEncoding {
    #[default]
    Text,
    Base64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpOutput {
    /// The status, such as 200.
    pub(crate) status: u16,
    /// Where the answer came from, after redirects.
    pub(crate) url: String,
    /// The headers of the answer, by their names in small letters.
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    /// The answer, cut in the middle if it is long; nothing if it is long and not text.
    pub(crate) body: String,
    /// Whether `body` is the text itself or base64.
    pub(crate) encoding: BodyEncoding,
    /// How many bytes of the answer were read.
    pub(crate) bytes: u64,
    /// Whether the answer is longer than what was read, or than what is shown here; the artifact `body` has all that was read.
    pub(crate) truncated: bool,
    /// The redirects that were followed.
    pub(crate) redirects: Vec<Redirect>,
}

/// One redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redirect {
    /// Its status.
    pub(crate) status: u16,
    /// Where it led.
    pub(crate) to: String,
}

/// What a worker is to ask for. The body comes in a frame of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) method: String,
    pub(crate) address: Address,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) redirects: u8,
    pub(crate) max_bytes: u64,
    pub(crate) timeout_ms: u64,
    pub(crate) until: Option<u64>,
    pub(crate) places: SentPlaces,
}

/// Where the network of a call leads. It leads nowhere else; this is so that a redirect can be told from a failure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) reach: Vec<Reach>,
    pub(crate) blocked: Vec<HostPattern>,
}

/// The same on its way to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SentPlaces {
    reach: Vec<(SentHosts, u16)>,
    blocked: Vec<SentHosts>,
}

/// No text of a pattern means every public host, so that is said apart.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum SentHosts {
    Public,
    These(String),
}

impl Places {
    pub(crate) fn sent(&self) -> SentPlaces {
        let hosts = |pattern: &HostPattern| match pattern {
            HostPattern::Public => SentHosts::Public,
            these => SentHosts::These(these.to_string()),
        };
        SentPlaces {
            reach: self.reach.iter().map(|reach| (hosts(&reach.host), reach.port)).collect(),
            blocked: self.blocked.iter().map(hosts).collect(),
        }
    }
}

impl SentPlaces {
    /// The places, if every one is understood.
    pub(crate) fn read(&self) -> Option<Places> {
        let pattern = |hosts: &SentHosts| match hosts {
            SentHosts::Public => Some(HostPattern::Public),
            SentHosts::These(text) => HostPattern::parse(text).ok(),
        };
        let reach = |(hosts, port): &(SentHosts, u16)| Some(Reach { host: pattern(hosts)?, port: *port });
        Some(Places {
            reach: self.reach.iter().map(reach).collect::<Option<_>>()?,
            blocked: self.blocked.iter().map(pattern).collect::<Option<_>>()?,
        })
    }
}

/// What a worker has got. The body comes in a frame of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    /// Whether there was no more.
    pub(crate) whole: bool,
    pub(crate) redirects: Vec<Redirect>,
}
