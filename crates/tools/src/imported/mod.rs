//! Tools that are declared in files: `TOOL.md`, manifests, and OpenAPI documents.
//!
//! What a file declares is a command behind walls, or a request through the guard of the network; there is no third thing.
//! Who wrote it is not trusted: its tools are labelled `imported`, so that each call of them is asked about until an operator
//! says otherwise, and are classed by what they can do, not by what they say.
//!
//! # Invariants
//! - The order of a file is the order of its tools. Nothing in it decides which name wins: no name is taken twice.
//! - Nothing is read but the text itself: no reference leads to another file or host.
//! - What a reader is shown of a file was cleaned, and gives no orders; what is hashed are its own words.

mod cleaned;
mod manifest;
mod openapi;
mod request;
mod spec;
mod template;
mod tool_md;

use std::sync::Arc;

use contract::{Canonical, SourceName};
use policy::Settings;
use serde_json::Value;
use thiserror::Error;

use crate::tool::Tool;
use spec::Spec;

/// What a file says of one tool; or what it is called there, and why it is none.
type ReadSpec = Result<Spec, (String, String)>;

/// The longest file that is read.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// As much as is shown of what is no tool, in characters.
const MOST_SHOWN: usize = 1024;
/// As many tools as one file declares.
const MOST_TOOLS: usize = 1000;

/// What a file declares.
pub struct DeclaredTools {
    /// Where its tools come from, as the registry has it.
    pub source: SourceName,
    /// Its tools, in its order.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What is no tool, and why not: by the name it has in the file.
    pub refused: Vec<(String, String)>,
}

/// Why a file declares nothing.
#[derive(Debug, Error)]
pub enum ImportError {
    /// Its name says nothing about it.
    #[error("`{name}` is neither `TOOL.md` nor a `.yaml`, `.yml` or `.json` file")]
    Kind {
        /// The name.
        name: String,
    },
    /// It is too long.
    #[error("the file is longer than {MOST_BYTES} bytes")]
    TooLong,
    /// It cannot be read.
    #[error("the file is not valid: {why}")]
    Syntax {
        /// Why not.
        why: String,
    },
}

/// Reads what a file declares. Its name says what kind of file it is, and stands in the registry.
pub fn read_declared(name: &str, text: &str, settings: &Settings) -> Result<DeclaredTools, ImportError> {
    if text.len() > MOST_BYTES {
        return Err(ImportError::TooLong);
    }
    let syntax = |why: String| ImportError::Syntax { why };
    let kind = || ImportError::Kind { name: contract::show_hidden(name) };
    let source = source_of(name).ok_or_else(kind)?;
    let read: Vec<ReadSpec> = if name.ends_with(".md") {
        vec![tool_md::read(text).map_err(|why| (name.to_owned(), why))]
    } else {
        let tree = tree_of(name, text).ok_or_else(kind)?.map_err(syntax)?;
        match tree.get("openapi").is_some() || tree.get("swagger").is_some() {
            true => openapi::read(&tree).map_err(syntax)?,
            false => manifest::read(tree).map_err(syntax)?,
        }
    };
    if read.len() > MOST_TOOLS {
        return Err(syntax(format!("it declares more than {MOST_TOOLS} tools")));
    }
    let (mut tools, mut refused) = (Vec::new(), Vec::new());
    for spec in read {
        let made = spec.and_then(|spec| {
            let name = spec.name.clone();
            spec.build(&source, settings).map_err(|why| (name, why))
        });
        match made {
            Ok(tool) => tools.push(tool),
            Err((name, why)) => {
                let shown =
                    |text: &str| contract::show_hidden(&text.chars().take(MOST_SHOWN).collect::<String>());
                refused.push((shown(&name), shown(&why)));
            }
        }
    }
    Ok(DeclaredTools { source, tools, refused })
}

/// `file:NAME`, in letters that the registry takes.
fn source_of(name: &str) -> Option<SourceName> {
    SourceName::parse(&format!("file:{}", name.to_ascii_lowercase())).ok()
}

/// The tree of a file, strictly read: a key that stands twice means nothing.
fn tree_of(name: &str, text: &str) -> Option<Result<Value, String>> {
    let extension = name.rsplit_once('.')?.1;
    match extension {
        "json" => {
            Some(Canonical::parse(text).map(|read| read.value().clone()).map_err(|error| error.to_string()))
        }
        "yaml" | "yml" => Some(yaml(text)),
        _ => None,
    }
}

fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
