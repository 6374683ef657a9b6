//! The one path every call takes: admit, decide, ask, claim, run, clean, settle.
//!
//! It decides nothing (that is `policy`) and runs nothing (that is `tools`): it keeps the order.
//!
//! # Invariants
//! - Intent is durable before effect: the store has the planned call before a tool sees its grant.
//! - Every call ends in the ledger, refusals too, with a signed receipt.
//! - Tool output is untrusted until `clean` returns it.
//! - What nobody sees through any more is ended, and never repeated.
//! - An error on the way means no: nothing runs that is not recorded.
#![forbid(unsafe_code)]

mod approve;
mod artifact;
mod batch;
mod by_chat;
mod call;
mod catalogue;
mod chat;
mod clock;
mod command_hook;
mod court;
mod crash;
mod disclosure;
mod elicit;
mod engine;
mod error;
mod explain;
mod guards;
mod hooks;
mod in_force;
mod list;
mod money;
mod numbers;
mod operator;
mod password;
mod past;
mod people;
mod pins;
mod private;
mod rates;
mod reconcile;
mod recover;
mod refused_token;
mod replay;
mod request;
mod review;
mod seal;
mod seen_through;
mod settle;
mod shadow;
mod sign_in;
mod sign_ins;
mod sources;
mod standing;
mod stop;
mod tokens;
mod turns;
mod upstreams;

pub use approve::{AnswerRefused, Folded, Reply, Waiting, WaitingPage};
pub use artifact::ShownArtifact;
pub use batch::{AT_ONCE, Batch, MOST_TOGETHER};
pub use by_chat::RefusedMessage;
pub use catalogue::CatalogueError;
pub use chat::{ChatError, Said};
pub use clean::{
    Action, Category, Cleaned, Cleaner, Finding, Findings, MAX_CONTENT, MAX_FINDINGS, Rule, clean_text,
    clean_value, rules,
};
pub use clock::{Boot, Clock};
pub use disclosure::{
    CALL_STATUS, Context, DISCOVERY_NAMES, DiscoveryTool, Shown, count_tokens, discovery_tools, wire_name,
};
pub use engine::{Engine, OpenError, Options};
pub use error::EngineError;
pub use explain::{Audience, Explanation};
pub use guards::CatalogueGuard;
pub use hooks::{Finished, Hearing, Hook, HookError, Objection, Proposed, Remark};
pub use in_force::{Cause, OnBadReload, PolicySource, ReplaceError};
pub use list::ListedCall;
pub use money::ShownBudget;
pub use numbers::{Family, NumberKind, Numbers, Times};
pub use operator::{Credential, CredentialError};
pub use password::{Password, PasswordError, SHORTEST_PASSWORD};
pub use past::{Candidate, Past, PastError, ReadCandidate, Simulated};
pub use people::{LocalOperator, PeopleError};
pub use pins::{ListedTool, Lowering, PinError, Versions};
pub use private::{PrivateRefused, Reading};
pub use reconcile::ReconcileRefused;
pub use refused_token::RefusedToken;
pub use replay::{Asked, Now, Replay, ReplayError, Said as SaidThen, Then, ToolSince};
pub use request::Request;
pub use review::{Review, exact};
pub use sign_in::{Proof, ProofError, SignInRefused, SignedIn};
pub use sources::{Imported, NotListed};
pub use standing::{Offer, Reach, RevokeRefused, ShownStanding as Standing};
pub use stop::StopRefused;
pub use upstreams::RefreshError;

/// What servers of others have besides tools, and what they say while they are at work: for the ways in.
pub mod upstream {
    pub use policy::{NamePrefix, Passed};
    pub use tools::mcp::{
        Able, Brought, COMPLETE, Caller, GET_PROMPT, Offered, OfferedArgument, OfferedPrompt,
        OfferedResource, READ_RESOURCE, SUBSCRIBE, Said, Upstream,
    };
}
