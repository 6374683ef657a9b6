//! A request that a file declares: where it goes is the file's, what is asked there the caller's.

use std::collections::{BTreeMap, BTreeSet};

use contract::{Definition, EgressClass, Reason};
use policy::HttpSettings;
use serde_json::{Map, Value};

use super::spec::PermissionLevel;
use super::template::{Argument, Kind, Part, encode, given_text, path_part, placeholder};
use crate::http::{Address, HttpInput, HttpOutput, WebRequest, headers_of};

/// What a request is made from.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: String,
    /// Scheme and host, and the port if it is another.
    pub(super) base: String,
    /// The path, part by part.
    pub(super) path: Vec<Part>,
    pub(super) query: Vec<(String, Part)>,
    pub(super) headers: Vec<(String, Part)>,
    pub(super) body: Body,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Nothing,
    /// A JSON object with these arguments.
    Members(Vec<String>),
    /// This argument itself, as JSON.
    Whole(String),
}

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// Headers that carry what only the gate may have.
const SECRET_HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];
const MOST_BYTES: u64 = 1024 * 1024;
const MOST_MILLISECONDS: u64 = 30_000;

impl Request {
    /// Reads a method and a URL. Each part of its path is plain, or an argument; of its host nothing is.
    pub(super) fn to(method: &str, url: &str) -> Result<Request, String> {
        let shown = contract::show_hidden(url);
        if url.contains(['?', '#']) {
            return Err(format!("`{shown}`: what is asked stands under `query`"));
        }
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // ATTACK(template-host): whom a tool talks to is not up to its caller.
        if authority.contains(['{', '}', '%']) {
            return Err(format!("`{shown}`: the host is the file's, and no argument"));
        }
        let base = url.get(..url.len() - rest.len() + authority.len()).unwrap_or_default().to_owned();
        let part = |part: &str| match placeholder(part) {
            Some(name) => Ok(Part::Argument(name.to_owned())),
            None if part.contains(['{', '}']) => {
                Err(format!("`{part}`: an argument is a whole part of a path"))
            }
            None if part == "." || part == ".." => Err(format!("`{shown}` holds `{part}`")),
            None => Ok(Part::Literal(part.to_owned())),
        };
        let path = path.split('/').map(part).collect::<Result<_, _>>()?;
        let request = Request {
            method: method.to_ascii_uppercase(),
            base,
            path,
            query: Vec::new(),
            headers: Vec::new(),
            body: Body::Nothing,
        };
        if !METHODS.contains(&request.method.as_str()) {
            return Err(format!(
                "the method `{}` is none of {}",
                contract::show_hidden(method),
                METHODS.join(", ")
            ));
        }
        Ok(request)
    }

    /// The arguments that it takes.
    pub(super) fn arguments(&self) -> BTreeSet<&str> {
        let parts = self.path.iter().chain(self.query.iter().chain(&self.headers).map(|(_, part)| part));
        let body = match &self.body {
            Body::Nothing => Vec::new(),
            Body::Members(names) => names.iter().map(String::as_str).collect(),
            Body::Whole(name) => vec![name.as_str()],
        };
        parts.filter_map(Part::argument).chain(body).collect()
    }

    /// What leaves the machine, and what that is called.
    pub(super) fn class(&self) -> (EgressClass, &'static str) {
        match self.reads() {
            true => (EgressClass::ReadOnly, "web:read"),
            false => (EgressClass::Write, "web:write"),
        }
    }

    pub(super) fn output() -> Value {
        Definition::of::<HttpInput, HttpOutput>("x").output
    }

    fn reads(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }

    pub(super) fn check(&self, level: PermissionLevel, arguments: &[Argument]) -> Result<(), String> {
        if level == PermissionLevel::Write || (level == PermissionLevel::Read && !self.reads()) {
            return Err(format!("the permission level does not fit `{}`: that is `network`", self.method));
        }
        let plain = self.path.iter().map(|part| match part {
            Part::Literal(text) => text.as_str(),
            Part::Argument(_) | Part::Option { .. } => "x",
        });
        let whole = format!("{}/{}", self.base, plain.collect::<Vec<_>>().join("/"));
        let address = Address::parse(&whole).map_err(|reason| reason.message)?;
        // ATTACK(imported-private-host): a file does not lead into the house.
        if let Some(special) = address.target.host.special() {
            return Err(format!(
                "`{}` is {}: files reach public hosts alone",
                address.target.host,
                special.describe()
            ));
        }
        for (name, _) in &self.headers {
            let plain = name.to_ascii_lowercase().replace('_', "-");
            if SECRET_HEADERS.contains(&plain.as_str()) {
                return Err(format!(
                    "the header `{plain}` is the gate's: name the credential under `egress.credentials`"
                ));
            }
        }
        // Whatever a caller puts there, the name is the file's.
        let named = self.headers.iter().map(|(name, part)| match part {
            Part::Literal(text) => (name.clone(), text.clone()),
            Part::Argument(_) | Part::Option { .. } => (name.clone(), "x".to_owned()),
        });
        headers_of(&named.collect(), &HttpSettings::default().headers).map_err(|reason| reason.message)?;
        if self.reads() && self.body != Body::Nothing {
            return Err(format!("`{}` sends nothing: it has no body", self.method));
        }
        let in_body: Vec<&str> = match &self.body {
            Body::Whole(name) => vec![name],
            _ => Vec::new(),
        };
        for argument in arguments {
            match &argument.kind {
                Kind::Json(_) if !in_body.contains(&argument.name.as_str()) => {
                    return Err(format!("`{}` is no single text, and belongs into the body", argument.name));
                }
                Kind::Path => {
                    return Err(format!(
                        "`{}`: a path of the workspace means nothing elsewhere",
                        argument.name
                    ));
                }
                _ => {}
            }
        }
        let optional =
            |name: &&str| arguments.iter().any(|argument| argument.name == **name && !argument.required);
        match self.path.iter().filter_map(Part::argument).find(|name| optional(name)) {
            Some(name) => Err(format!("`{name}` is a part of the path, so it is required")),
            None => Ok(()),
        }
    }

    /// The request of one call.
    pub(super) fn fill(
        &self,
        given: &Value,
        settings: &HttpSettings,
        seconds: u64,
    ) -> Result<WebRequest, Reason> {
        if !settings.methods.contains(&self.method) {
            return Err(Reason::constrained(format!(
                "the method `{}` is not one that may be used",
                self.method
            )));
        }
        let mut url = self.base.clone();
        for part in &self.path {
            url.push('/');
            match part {
                Part::Literal(text) => url.push_str(text),
                Part::Argument(name) | Part::Option { argument: name, .. } => {
                    url.push_str(&path_part(name, given)?)
                }
            }
        }
        let mut separator = '?';
        for (name, part) in &self.query {
            let Some(text) = text_of(part, given)? else { continue };
            url.push(separator);
            // ATTACK(template-query): `&`, `=` and `#` of a caller are characters of the value.
            url.push_str(&format!("{}={}", encode(name), encode(&text)));
            separator = '&';
        }
        let mut headers = BTreeMap::new();
        for (name, part) in &self.headers {
            if let Some(text) = text_of(part, given)? {
                headers.insert(name.clone(), text);
            }
        }
        let body = match &self.body {
            Body::Nothing => None,
            Body::Members(names) => {
                let member = |name: &String| Some((name.clone(), given.get(name)?.clone()));
                Some(Value::Object(names.iter().filter_map(member).collect::<Map<_, _>>()))
            }
            Body::Whole(name) => given.get(name).cloned(),
        };
        if body.is_some() {
            headers.insert("content-type".to_owned(), "application/json".to_owned());
        }
        Ok(WebRequest {
            until: None,
            method: self.method.clone(),
            address: Address::parse(&url)?,
            // ATTACK(template-header): a line break in a value would begin another header; such a value is refused.
            headers: headers_of(&headers, &settings.headers)?,
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            // Where a host sends one on to is not what was declared.
            redirects: 0,
            max_bytes: MOST_BYTES.min(settings.max_response),
            timeout_ms: seconds.saturating_mul(1000).min(MOST_MILLISECONDS),
        })
    }
}

fn text_of(part: &Part, given: &Value) -> Result<Option<String>, Reason> {
    match part {
        Part::Literal(text) => Ok(Some(text.clone())),
        Part::Argument(name) | Part::Option { argument: name, .. } => given_text(name, given),
    }
}
