//! What `http.request` promises.

use contract::{Category, CostTier, Definition, EgressClass, Example, Idempotency, SafetyClass};
use serde_json::json;

use super::types::{HttpInput, HttpOutput};

/// The contract's definition.
pub(super) fn definition() -> Definition {
    Definition {
        title: "Ask the web".into(),
        description: "Sends one HTTP request and gives its answer: status, headers, body. `GET` and `HEAD` only ask, and are \
            free for hosts that are listed; other methods may change something and are asked for. Redirects are followed to \
            hosts that the call may reach, and take no credentials to another origin. Private addresses are never reached. \
            Of a long answer the beginning and the end are shown; what was read is in the artifact `body`."
            .into(),
        category: Category::Web,
        // Of the worst it can be asked for; what a call is says its method.
        action: "web:write".into(),
        safety: SafetyClass::Network,
        egress: EgressClass::Write,
        idempotency: Idempotency::Optional,
        cost: CostTier::Low,
        timeout_seconds: 40,
        examples: vec![
            Example::of("read a page", json!({ "url": "https://example.com/" })),
            Example::of(
                "ask an interface",
                json!({ "url": "https://api.example.com/items?page=2", "headers": { "Accept": "application/json" }, "max_bytes": 65536 }),
            ),
            Example::of(
                "send something",
                json!({
                    "method": "POST", "url": "https://api.example.com/items",
                    "headers": { "Content-Type": "application/json" }, "body": "{\"name\":\"one\"}",
                }),
            ),
        ],
        failure_modes: vec![
            "bad_arguments: the URL has a user or a fragment, a header is not yours to set, or `GET` has a body".into(),
            "host_not_allowed: the host is private, blocked or not granted, or a redirect leads to one that is".into(),
            "timeout: there was no whole answer in time; ask for less, or for longer (at most 30000)".into(),
            "tool_failed: the host cannot be reached, its certificate is not trusted, or it does not speak HTTP".into(),
            "cannot_enforce: this gate has no network to give; nothing was sent".into(),
            "a status of 400 or more is an answer, not a failure of the call".into(),
        ],
        ..Definition::of::<HttpInput, HttpOutput>("http.request")
    }
}
