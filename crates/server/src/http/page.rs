//! The page where people decide. It is the same for everybody; what it shows, it asks for with the reader's session.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::app::App;

const HTML: &str = include_str!("../../assets/console.html");
const CSS: &str = include_str!("../../assets/console.css");
const JS: &str = include_str!("../../assets/console.js");
const ICON: &str = include_str!("../../assets/icon.svg");

pub(super) async fn console() -> Response {
    file("text/html; charset=utf-8", HTML)
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", CSS)
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", JS)
}

pub(super) async fn icon() -> Response {
    file("image/svg+xml", ICON)
}

/// That the gate answers, whether calls can begin, and nothing else about it.
pub(super) async fn health(State(app): State<App>) -> Response {
    let said = if app.gate.is_suspended() { "{\"status\":\"degraded\"}" } else { "{\"status\":\"ok\"}" };
    file("application/json", said)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
