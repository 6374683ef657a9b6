//! Every route there is, each with whom it is for.

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use contract::CallResult;
use serde_json::{Map, Value};

use super::app::App;
use super::caller::Who;
use super::gate::{CallRecord, Decision, Simulate, Word};
use super::guard::{admit, guard};
use super::openapi::{Row, does};
use super::problem::Problem;
// Operations are called by these names in the OpenAPI document, and stay so.
use super::{agent_tokens as agents_tokens, desk_routes as look, password_and_passkey as entry};
use super::{
    approvals, budgets, calls, chat, events, ledger, mcp, numbers, openapi, operators, page, policy, shapes,
    sign_in, standing, tools,
};

/// One table makes the list, the router and the OpenAPI document, so that none can have what the others lack, and no
/// route can be added without saying whom it is for, and what it takes and gives.
macro_rules! routes {
    ($($method:ident $path:literal, $who:ident => $handler:path, $does:expr;)+) => {
        /// Every route: its method, its path, and whom it is for.
        pub const ROUTES: &[(&str, &str, Who)] = &[$((stringify!($method), $path, Who::$who)),+];

        /// The same with what each of them does.
        pub(super) fn operations() -> Vec<Row> {
            vec![$((stringify!($method), $path, Who::$who, stringify!($handler), $does)),+]
        }

        fn table(app: &App) -> Router<App> {
            Router::new()$(.route(
                $path,
                on(MethodFilter::$method, $handler)
                    .route_layer(from_fn_with_state((app.clone(), Who::$who), admit)),
            ))+
        }
    };
}

/// What a call is answered with, besides 200.
const OF_CALLS: &[u16] = &[200, 202, 403, 404, 409, 413, 422, 429, 500, 503];
const HTML: &[&str] = &["text/html; charset=utf-8"];
const ASSET: &[&str] = &["text/css; charset=utf-8", "text/javascript; charset=utf-8", "image/svg+xml"];
const NUMBERS: &[&str] = &["text/plain; version=0.0.4; charset=utf-8"];
const TEXT: &[&str] = &["text/plain; charset=utf-8"];
const EVENTS: &[&str] = &["text/event-stream"];
const MCP: &[&str] = &["application/json", "text/event-stream"];
const MCP_ERRORS: &[&str] = &["application/json", "text/plain; charset=utf-8"];

routes! {
    GET    "/",                              Anyone   => page::console,
        does("the console").gives_other(200, HTML);
    GET    "/assets/{file}",                 Anyone   => page::asset,
        does("its files").gives_other(200, ASSET);
    GET    "/healthz",                       Anyone   => page::health,
        does("whether the gate answers, and calls can begin").gives::<shapes::Health>(200);
    GET    "/readyz",                        Anyone   => numbers::ready,
        does("whether the store answers, and calls can be taken").gives::<shapes::Ready>(200)
            .gives::<shapes::Ready>(503);
    GET    "/metrics",                       Counter  => numbers::show,
        does("what happens, in numbers, for Prometheus").gives_other(200, NUMBERS);
    GET    "/openapi.json",                  Anyone   => openapi::show,
        does("this document").gives_other(200, &["application/json"]);
    GET    "/sign-in",                       Anyone   => sign_in::open,
        does("uses a sign-in link up; without one, the page to sign in otherwise").query::<sign_in::Code>()
            .gives_other(200, HTML).gives_other(303, &[]);
    POST   "/v1/sign-in/password",           Anyone   => entry::by_password,
        does("signs in by name and password").takes::<entry::ByPassword>().gives::<entry::CameIn>(200);
    POST   "/v1/sign-in/passkey/challenge",  Anyone   => entry::challenge,
        does("what a passkey is asked to sign").takes::<entry::Nothing>().gives::<entry::Challenge>(200);
    POST   "/v1/sign-in/passkey",            Anyone   => entry::by_passkey,
        does("signs in by a passkey").takes::<entry::ByPasskey>().gives::<entry::CameIn>(200);
    PUT    "/v1/me/password",                Operator => entry::set_password,
        does("sets one's own password").takes::<entry::NewPassword>().gives_other(204, &[]);
    GET    "/v1/me/passkeys",                Operator => entry::passkeys,
        does("one's own passkeys").gives::<entry::Passkeys>(200);
    POST   "/v1/me/passkeys/challenge",      Operator => entry::wish_passkey,
        does("what an authenticator is asked to make a key for").takes::<entry::Nothing>()
            .gives::<entry::KeyWish>(200);
    POST   "/v1/me/passkeys",                Operator => entry::add_passkey,
        does("adds a passkey of one's own").takes::<entry::NewPasskey>().gives::<entry::ShownPasskey>(201);
    DELETE "/v1/me/passkeys/{id}",           Operator => entry::remove_passkey,
        does("takes one away").gives_other(204, &[]);
    POST   "/v1/agents/{name}/token",        Operator => agents_tokens::rotate,
        does("issues another token for an agent, and ends the one before; takes an admin")
            .gives::<agents_tokens::NewToken>(201);
    DELETE "/v1/agents/{name}/token",        Operator => agents_tokens::revoke,
        does("revokes an agent's token; takes an admin").gives_other(204, &[]);
    GET    "/v1/operators",                  Operator => operators::list,
        does("everybody who decides, and who did").gives::<operators::Operators>(200);
    POST   "/v1/operators",                  Operator => operators::add,
        does("adds somebody, and tells once what they come in with; takes an admin")
            .takes::<operators::NewOperator>().gives::<operators::AddedOperator>(201);
    DELETE "/v1/operators/{name}",           Operator => operators::remove,
        does("takes somebody's authority, at once; takes an admin").gives_other(204, &[]);
    POST   "/v1/sign-in-links",              Operator => sign_in::new_link,
        does("another link to the page; takes the credential, not a session").gives::<shapes::SignInLink>(201);
    POST   "/v1/sign-out",                   Operator => sign_in::close,
        does("ends the session of the page").gives_other(204, &[]);
    GET    "/v1/me",                         Operator => sign_in::whoami,
        does("who this is, and in which role").gives::<shapes::Me>(200);
    POST   "/v1/calls",                      Agent    => calls::make,
        does("makes a call").takes::<calls::Asked>().gives_all::<CallResult>(OF_CALLS)
            .header("Idempotency-Key", "the same as `key` in the body");
    POST   "/v1/calls:batch",                Agent    => calls::make_all,
        does("makes many calls, eight at a time").takes::<calls::AskedTogether>().gives::<shapes::Results>(200);
    GET    "/v1/calls",                      Either   => calls::list,
        does("lists calls: an agent's own, all for an operator").query::<calls::ListWish>()
            .gives::<shapes::Calls>(200);
    GET    "/v1/calls/{id}",                 Either   => calls::show,
        does("one call; an agent collects it so").query::<calls::ShowWish>().gives::<CallRecord>(200);
    DELETE "/v1/calls/{id}",                 Either   => calls::cancel,
        does("ends a call that runs").gives::<shapes::Ending>(202);
    POST   "/v1/calls/{id}/reconciliation",  Operator => calls::reconcile,
        does("says whether a call happened whose outcome nobody knows").takes::<Word>().gives::<CallResult>(200);
    GET    "/v1/calls/{id}/story",           Operator => look::story,
        does("what the ledger tells of a call, what was and would be decided, and what came of it")
            .gives::<shapes::Looked>(200);
    GET    "/v1/calls/{id}/receipt",         Operator => look::receipt,
        does("its receipt, checked").gives::<shapes::Looked>(200);
    POST   "/v1/calls/{id}/reading",         Operator => look::reading,
        does("what a call keeps private; takes an admin").gives::<shapes::Looked>(200);
    GET    "/v1/approvals",                  Operator => approvals::list,
        does("what waits, with the exact arguments").query::<approvals::ListWish>()
            .gives::<shapes::Approvals>(200);
    GET    "/v1/approvals/{id}",             Operator => look::question,
        does("one that waits, with all that is known of it").gives::<shapes::Looked>(200);
    POST   "/v1/approvals/{id}/decision",    Operator => approvals::decide,
        does("says yes or no").takes::<Decision>().gives::<shapes::Decided>(200);
    POST   "/v1/answers",                    Operator => approvals::answer,
        does("the same in the words of a chat").takes::<approvals::Text>().gives::<shapes::AllAnswered>(200);
    POST   "/v1/chat/slack",                 Signed   => chat::slack,
        does("an answer by a slash command, signed as Slack signs it").gives::<chat::Told>(200);
    POST   "/v1/chat/webhook",               Signed   => chat::webhook,
        does("an answer by any other chat, signed").takes::<chat::Posted>().gives::<chat::Told>(200)
            .header("X-Toolgate-Timestamp", "when it was written, in seconds since 1970")
            .header("X-Toolgate-Signature", "`v1=` and the HMAC-SHA256 of `v1:TIME:` and the body");
    GET    "/v1/standing",                   Operator => standing::list,
        does("every yes that is good for more than one call").gives::<shapes::Standing>(200);
    POST   "/v1/approvals/{id}/revocation",  Operator => standing::revoke,
        does("takes a yes back").takes::<standing::Revocation>().gives::<shapes::Revoked>(200);
    GET    "/v1/budgets",                    Operator => budgets::list,
        does("every budget, and what is left of it").gives::<shapes::Budgets>(200);
    GET    "/v1/tools",                      Either   => tools::list,
        does("the tools that an agent may know of").gives::<shapes::Tools>(200);
    GET    "/v1/tools/{name}",               Either   => tools::show,
        does("one of them").gives::<shapes::WholeTool>(200);
    GET    "/v1/registry",                   Operator => look::registry,
        does("every tool that is registered").gives::<shapes::Looked>(200);
    GET    "/v1/registry/{name}",            Operator => look::registered,
        does("one of them, with every version").gives::<shapes::Looked>(200);
    GET    "/v1/agents",                     Operator => look::agents,
        does("every agent").gives::<shapes::Looked>(200);
    GET    "/v1/egress",                     Operator => look::egress,
        does("whom calls have reached, and tried to").query::<look::PageWish>().gives::<shapes::Looked>(200);
    GET    "/v1/overview",                   Operator => look::overview,
        does("numbers of the last days").gives::<shapes::Looked>(200);
    GET    "/v1/policy",                     Operator => look::policy,
        does("the policy in force").gives::<shapes::Looked>(200);
    POST   "/v1/explain",                    Either   => tools::explain,
        does("what would be decided of a call, and why").takes::<calls::Asked>().gives::<shapes::Explained>(200);
    POST   "/v1/policy/simulate",            Operator => policy::simulate,
        does("what another configuration would have said of recorded calls; not for viewers")
            .takes::<Simulate>().gives::<shapes::Simulated>(200);
    GET    "/v1/ledger/checkpoint",          Either   => ledger::checkpoint,
        does("the signed head of the ledger").gives_other(200, TEXT);
    GET    "/v1/ledger/proof/{seq}",         Operator => ledger::proof,
        does("proves that an entry is in it").gives::<shapes::Proof>(200);
    GET    "/v1/ledger",                     Operator => look::entries,
        does("the newest entries of the ledger").query::<look::PageWish>().gives::<shapes::Looked>(200);
    POST   "/v1/ledger/verification",        Operator => look::verify,
        does("begins to go through the whole ledger").gives::<shapes::Looked>(202);
    GET    "/v1/events",                     Operator => events::follow,
        does("what happens, as server-sent events").gives_other(200, EVENTS)
            .header("Last-Event-ID", "goes on after this event");
    POST   "/mcp",                           Agent    => mcp::say,
        does("a message of an MCP client").takes::<Map<String, Value>>().gives_other(200, MCP)
            .gives_other(202, &[]).fails_as(MCP_ERRORS);
    GET    "/mcp",                           Agent    => mcp::listen,
        does("listens in a session of MCP").gives_other(200, EVENTS).fails_as(MCP_ERRORS);
    DELETE "/mcp",                           Agent    => mcp::leave,
        does("ends one").gives_other(200, &[]).gives_other(202, &[]).gives_other(204, &[]).fails_as(MCP_ERRORS);
    GET    "/.well-known/oauth-protected-resource",     Anyone => mcp::metadata,
        does("what `/mcp` is, as RFC 9728 has it").gives::<shapes::ProtectedResource>(200);
    GET    "/.well-known/oauth-protected-resource/mcp", Anyone => mcp::metadata,
        does("the same").gives::<shapes::ProtectedResource>(200);
}

/// The whole server, as a service.
pub(super) fn router(app: App) -> Router {
    table(&app)
        .fallback(async || Problem::of_status(StatusCode::NOT_FOUND))
        .method_not_allowed_fallback(async || Problem::of_status(StatusCode::METHOD_NOT_ALLOWED))
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}
