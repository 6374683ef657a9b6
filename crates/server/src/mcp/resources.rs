//! What clients can read: a page about each tool, and what calls have left behind.
//!
//! # Invariants
//! - An agent reads of its own calls, and of tools that it may know of.
//! - What a tool gave is cleaned before it is read.

use contract::{CallId, CallResult, Contract};
use engine::ShownArtifact;
use rmcp::model::{
    CacheScope, ContentBlock, ErrorData, ListResourceTemplatesResult, ListResourcesResult,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::{Server, no_store};

const TOOLS: &str = "toolgate://tool/";
const ARTIFACTS: &str = "toolgate://artifact/";

impl Server {
    pub(super) fn resources(&self) -> ListResourcesResult {
        let tools = self.engine.tools_for(&self.agent);
        let pages = tools.iter().map(page_of);
        let all = pages.chain(self.resources_of_others()).collect();
        let mut listed = ListResourcesResult::with_all_items(all);
        listed.ttl_ms = Some(0);
        listed.cache_scope = Some(CacheScope::Private);
        listed
    }

    pub(super) fn resource_templates(&self) -> ListResourceTemplatesResult {
        let artifact = ResourceTemplate::new(format!("{ARTIFACTS}{{call_id}}/{{name}}"), "artifact")
            .with_title("What a call left behind")
            .with_description("The whole of what was too long for the answer of one of your calls, cleaned.")
            .with_mime_type("text/plain");
        let all = [artifact].into_iter().chain(self.templates_of_others()).collect();
        let mut listed = ListResourceTemplatesResult::with_all_items(all);
        listed.ttl_ms = Some(0);
        listed.cache_scope = Some(CacheScope::Private);
        listed
    }

    pub(super) async fn read(&self, uri: &str) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || ErrorData::invalid_params("there is no such resource", Some(json!({ "uri": uri })));
        let contents = if let Some(name) = uri.strip_prefix(TOOLS) {
            let tools = self.engine.tools_for(&self.agent);
            let contract = tools.iter().find(|contract| contract.name().as_str() == name);
            let page = page_about(contract.ok_or_else(unknown)?);
            ResourceContents::text(page, uri).with_mime_type("text/markdown")
        } else {
            let (call, name) =
                uri.strip_prefix(ARTIFACTS).and_then(|rest| rest.split_once('/')).ok_or_else(unknown)?;
            let call = CallId::parse(call).map_err(|_| unknown())?;
            let found =
                self.engine.artifact_for(&self.agent, &call, &decoded(name).ok_or_else(unknown)?).await;
            let shown = found.map_err(no_store)?;
            match shown.ok_or_else(unknown)? {
                ShownArtifact::Text(text) => ResourceContents::text(text, uri),
                ShownArtifact::NotText => {
                    let why = "it is no text, and only text can be cleaned for a model";
                    return Err(ErrorData::invalid_params(why, Some(json!({ "uri": uri }))));
                }
            }
        };
        let mut read = ReadResourceResult::new(vec![contents]);
        read.ttl_ms = Some(0);
        read.cache_scope = Some(CacheScope::Private);
        Ok(ReadResourceResponse::Complete(read))
    }
}

/// Where the artifacts of a result can be read.
pub(super) fn links(result: &CallResult) -> Vec<ContentBlock> {
    let link = |artifact: &contract::Artifact| {
        let uri = address_of(&result.call_id, &artifact.name);
        let resource = Resource::new(uri, artifact.name.clone())
            .with_description("the whole of what this call left behind")
            .with_mime_type("text/plain")
            .with_size(artifact.bytes);
        ContentBlock::resource_link(resource)
    };
    result.artifacts.iter().map(link).collect()
}

/// Where an artifact can be read.
pub(super) fn address_of(call: &CallId, name: &str) -> String {
    format!("{ARTIFACTS}{call}/{}", encoded(name))
}

fn page_of(contract: &Contract) -> Resource {
    let definition = contract.definition();
    Resource::new(format!("{TOOLS}{}", contract.name()), contract.name().to_string())
        .with_title(definition.title.clone())
        .with_description(format!("how `{}` is used, with examples and ways to fail", contract.name()))
        .with_mime_type("text/markdown")
}

/// What there is to know of a tool, as Markdown.
fn page_about(contract: &Contract) -> String {
    let definition = contract.definition();
    let mut page = format!("# {}\n\n{}\n", contract.name(), contract.shown_description());
    if !definition.examples.is_empty() {
        page.push_str("\n## Examples\n\n");
        for example in &definition.examples {
            page.push_str(&format!("    {}\n", json!(example)));
        }
    }
    if !definition.failure_modes.is_empty() {
        page.push_str("\n## Ways to fail\n\n");
        for mode in &definition.failure_modes {
            page.push_str(&format!("- {mode}\n"));
        }
    }
    page
}

/// A name as a part of an address.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let plain = match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        };
        bytes.push(plain);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_out_of_an_address_as_it_went_in() {
        for name in ["output.txt", "a b/c", "é%41", ""] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!(encoded("a/b"), "a%2Fb");
        assert_eq!(decoded("%"), None);
        assert_eq!(decoded("%fF"), None, "half of a character");
    }
}
