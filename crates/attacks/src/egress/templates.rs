//! Requests that a file declares: an argument is one part of one of them, whatever it holds.

use contract::{CallResult, Private};
use serde_json::{Value, json};
use store::Vote;
use tools::read_declared;

use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Opening, Stand};

const MANIFEST: &str = r#"
tools:
  - name: shop.item
    description: Shows an item of the shop.
    permission_level: network
    arguments:
      id: { type: string, required: true }
      lang: { type: string }
      note: { type: string }
    http:
      url: "http://example.test/public/{id}/show"
      query: { lang: "{lang}", level: "low" }
      headers: { x-note: "{note}" }
"#;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "template-path",
            "an argument in a path is one part of it, and leads nowhere else",
            |stand| {
                let trip = Trip::begin(stand)?;
                // As it is where a template is filled like a text.
                trip.bare("curl", &["-sS", "http://example.test/public/../admin/TOKEN/show"])?;
                Ok(trip.judged(|visit| visit.says("GET /admin/")))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for id in [
                    "../admin/TOKEN",
                    "..%2fadmin%2fTOKEN",
                    "TOKEN/../../admin",
                    "TOKEN?x=/admin",
                    "TOKEN#",
                    "@other.test/TOKEN",
                ] {
                    ask(stand, &trip, json!({ "id": id }), Ending::Done)?;
                }
                for id in ["", ".", ".."] {
                    ask(
                        stand,
                        &trip,
                        json!({ "id": id, "note": "TOKEN" }),
                        Ending::Refused("bad_arguments"),
                    )?;
                }
                let is_declared =
                    |line: &str| line.starts_with("GET /public/") && line.contains("/show?level=low ");
                Ok(trip.judged(|visit| !visit.request.lines().next().is_some_and(is_declared)))
            },
        ),
        Case::new(
            "template-query",
            "an argument in a query is one value, and adds or replaces no other",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare(
                    "curl",
                    &["-sS", "http://example.test/public/TOKEN/show?lang=en&level=high&level=low"],
                )?;
                Ok(trip.judged(|visit| visit.says("level=high")))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for lang in
                    ["en&level=high", "en;level=high", "en#&level=high", "en\r\nlevel=high", "en&level=high&"]
                {
                    ask(stand, &trip, json!({ "id": "TOKEN", "lang": lang }), Ending::Done)?;
                }
                Ok(trip.judged(|visit| visit.says("level=high") || !visit.says("&level=low ")))
            },
        ),
        Case::new(
            "template-header",
            "an argument in a header is its value, and begins no other header",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &["-sS", "-H", "X-Note: a\r\nX-Second: TOKEN", "http://example.test/"])?;
                Ok(trip.judged(|visit| visit.request.lines().any(|line| line.starts_with("X-Second:"))))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for note in
                    ["a\r\nX-Second: TOKEN", "a\nX-Second: TOKEN", "a\rX-Second: TOKEN", "a\u{85}TOKEN"]
                {
                    ask(
                        stand,
                        &trip,
                        json!({ "id": "TOKEN", "note": note }),
                        Ending::Refused("bad_arguments"),
                    )?;
                }
                Ok(trip.judged(|_| true))
            },
        ),
    ]
}

/// Calls the tool that the file declares. `TOKEN` stands for the text; somebody careless says yes.
fn ask(stand: &Stand<'_>, trip: &Trip<'_>, arguments: Value, ending: Ending) -> Try<CallResult> {
    let settings = settings(granting(&["example.test:80"], Private::none())?);
    let tools = read_declared("shop.yaml", MANIFEST, &settings)?.tools;
    let gate = stand.open(Opening { tools, ..Opening::with(settings) })?;
    let filled: Value = serde_json::from_str(&arguments.to_string().replace("TOKEN", &trip.token))?;
    let result = gate.send(gate.request("shop.item", filled.clone())?)?;
    match &result.approval {
        // Whatever its class: who has written the file is a stranger.
        Some(view) => {
            gate.answer(view.id.as_str(), Vote::Approve)?;
            gate.call("shop.item", filled, ending)
        }
        None => {
            gate.expect(&result.call_id, ending);
            Ok(result)
        }
    }
}
