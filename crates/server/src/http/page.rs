//! The console's own files. They are the same for everybody; what it shows, it asks for with the reader's session.

use axum::extract::{self, Path};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::body;
use super::problem::Problem;
use super::shapes::{Health, State};

const SIGN_IN_HTML: &str = include_str!("../../assets/sign-in.html");
const HTML: &str = include_str!("../../assets/console.html");

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($kind:ident $name:literal,)+) => {
        /// Every file of the console: its name, what it is, and its text.
        pub const ASSETS: &[(&str, &str, &str)] =
            &[$(($name, $kind, include_str!(concat!("../../assets/", $name)))),+];
    };
}

assets! {
    SVG "icon.svg",
    CSS "console.css",
    CSS "pages.css",
    CSS "sign-in.css",
    JS  "console.js",
    JS  "agents.js",
    JS  "approvals.js",
    JS  "blake3.js",
    JS  "card.js",
    JS  "charts.js",
    JS  "diff.js",
    JS  "egress.js",
    JS  "exact.js",
    JS  "gate.js",
    JS  "keys.js",
    JS  "ledger.js",
    JS  "live.js",
    JS  "overview.js",
    JS  "people.js",
    JS  "policy.js",
    JS  "risk.js",
    JS  "sign-in.js",
    JS  "standing.js",
    JS  "story.js",
    JS  "text.js",
    JS  "tools.js",
}

pub(super) async fn console() -> Response {
    file("text/html; charset=utf-8", HTML)
}

/// The page where operators come in by passkey or password.
pub(super) fn sign_in() -> Response {
    file("text/html; charset=utf-8", SIGN_IN_HTML)
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => file(kind, text),
        None => Problem::of_status(StatusCode::NOT_FOUND).into_response(),
    }
}

/// That the gate answers, whether calls can begin, and nothing else about it.
pub(super) async fn health(extract::State(app): extract::State<App>) -> Response {
    let status = if app.gate.is_suspended() { State::Degraded } else { State::Ok };
    body::json(StatusCode::OK, &Health { status })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
