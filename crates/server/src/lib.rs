//! The ways in: MCP over stdio, the HTTP API and the page where people decide.
//!
//! It turns bytes into requests and answers into bytes; the engine does the rest.
//!
//! # Invariants
//! - Every way in ends at `Engine::call`; none has a path of its own.
//! - Who asks is settled here, before anything else: an agent is authenticated or named by whoever started us.
#![forbid(unsafe_code)]

mod http;
mod mcp;

#[cfg(feature = "weaken")]
pub use http::serve_http_without;
pub use http::{
    ASSETS, AccessTokenSettings, AccessTokens, Also, Answered, CODES, CallRecord, CallSummary, Cancelled,
    ChatKey, ChatWay, DecideError, Decision, Desk, Elsewhere, Entrance, Event, Gate, GateError, HttpError,
    HttpOptions, HttpReady, KeyReader, NobodyElsewhere, Outside, OutsideError, Pending, Person, Question,
    ROUTES, ReadingError, Simulate, SimulateError, Stands, TlsFiles, TokenBook, Who, Word, WordError,
    link_socket, openapi, serve_gate, serve_http,
};
pub use mcp::{DoorGuard, McpError, serve_stdio};

/// The stack of a thread that serves these ways in, in bytes. A call that comes by MCP over HTTP is polled through many
/// layers at once, and a thread whose stack ends takes the whole gate with it.
pub const THREAD_STACK: usize = 8 << 20;
