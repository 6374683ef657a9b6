//! Tools of other people's MCP servers, as tools of ours.
//!
//! A server is a stranger: what it offers is cleaned, classed up and hashed ([`import`]), what it says is read strictly
//! ([`message`], [`session`], [`result`]), and it runs behind walls ([`instance`], [`upstream`]) or is asked by a worker that is
//! ([`web`]). Which of its tools are listed, and who may call them, is not known here.

mod caller;
mod cut;
mod guards;
mod import;
mod instance;
mod message;
mod mirrored;
mod offered;
mod reading;
mod refresh;
mod result;
mod run_so_far;
mod servers;
mod session;
mod tool;
mod upstream;
mod web;

pub use caller::{Able, Brought, Caller, Said};
pub use egress::{NotSignedIn, Pending, SignIn, SignInEvent, SignInKeeper};
pub use guards::Guard;
pub use import::{Offer, Unfit, source_of};
pub use offered::{Offered, OfferedArgument, OfferedPrompt, OfferedResource};
pub use reading::{COMPLETE, GET_PROMPT, READ_RESOURCE, Reading, SUBSCRIBE};
pub use refresh::{REFRESH, Refresh};
pub use tool::{NotMade, UpstreamTool};
pub use upstream::Upstream;
pub use web::place_of;
pub(crate) use web::{StreamEvent, events_of};

/// The names of our own tools that ask servers.
pub const NAMES: &[&str] = &[COMPLETE, GET_PROMPT, READ_RESOURCE, REFRESH, SUBSCRIBE];
