//! One question with all that whoever answers it has to see, down to the bytes that a yes is bound to.
//!
//! # Invariants
//! - The exact arguments, read as JSON and written canonically, are the bytes whose digest the approval binds.
//! - Nothing in them can hide itself, or be taken for the mark that stands for something hidden.

use contract::{ApprovalId, Digest, SourceName, TrustLabel, is_hidden, is_odd_blank};
use policy::{NamedPlace, named_places};
use serde::Serialize;
use store::{ApprovalState, Similar};

use crate::approve::{Waiting, request_of};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::replay::Said;

/// As many earlier calls as are shown beside a question.
const MOST_SIMILAR: u32 = 12;

/// A question with all that is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// The question as lists show it.
    #[serde(flatten)]
    pub waiting: Waiting,
    /// The arguments as canonical JSON in which what would not be seen is escaped; nothing if they are erased.
    pub exact_arguments: Option<String>,
    /// The digest of their canonical form, to which a yes is bound.
    pub arguments_digest: Digest,
    /// Where the definition of the tool comes from; nothing if it is not the one that was asked about any more.
    pub trust: Option<TrustLabel>,
    /// Which server or file the tool comes from; nothing for our own.
    pub source: Option<SourceName>,
    /// Each layer that had a say, in order, as the ledger has it.
    pub trace: Vec<Said>,
    /// The places that the arguments name.
    pub places: Vec<NamedPlace>,
    /// Calls of the same agent with the same tool, newest first.
    #[serde(skip)]
    pub similar: Vec<Similar>,
}

impl Engine {
    /// A question that waits, with all that is known of it. Nothing if it does not wait.
    pub async fn review(&self, id: &ApprovalId) -> Result<Option<Review>, EngineError> {
        let store = &self.inner.store;
        let row = store.approval(id).await?.filter(|row| row.state == ApprovalState::Pending);
        let Some(row) = row else { return Ok(None) };
        let Some(call) = store.call(&row.call).await? else { return Ok(None) };
        let told = store.past_call(&row.call).await?.map(|(_, told)| told).unwrap_or_default();
        let trace = told.get("trace").cloned().unwrap_or_default();
        let catalogue = self.catalogue();
        let listed = catalogue.find(row.tool.as_str()).filter(|listed| listed.facts.hash == row.contract);
        let admitted = request_of(&call).and_then(|request| self.admit(call.id.clone(), &request).ok());
        let places = admitted.map(|admitted| named_places(&admitted, &self.settings())).unwrap_or_default();
        let trace: Vec<Said> = serde_json::from_value::<Vec<Said>>(trace).unwrap_or_default();
        Ok(Some(Review {
            exact_arguments: row.arguments_json.as_deref().map(exact),
            arguments_digest: row.arguments,
            trust: listed.map(|listed| listed.facts.trust),
            source: listed.and_then(|listed| listed.source.clone()),
            trace: trace.into_iter().map(shown).collect(),
            places,
            similar: store.similar(&row.call, MOST_SIMILAR).await?,
            waiting: {
                let mut waiting = [self.shown(row).await?];
                self.name_joiners(&mut waiting).await?;
                let [waiting] = waiting;
                waiting
            },
        }))
    }
}

/// What a layer said may quote the call.
fn shown(said: Said) -> Said {
    Said { why: contract::show_hidden(&said.why), ..said }
}

/// JSON that means the same, in which every character that is not seen, or is no plain space, is escaped.
///
/// ATTACK(forged-marks): a mark for a hidden character could be written by whoever hides something; an escape cannot, since
/// its backslash would be escaped itself.
pub fn exact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hidden(character) || is_odd_blank(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use contract::Canonical;
    use serde_json::Value;

    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_escaped_means_the_same_and_hides_nothing() {
        let hostile = "{\"a\u{202e}\":\"x\u{200b}\u{e0041}\u{a0}y\\u001b\",\"b\":\"⟨U+200B⟩ \\\\u200b\"}";
        let canonical = Canonical::parse(hostile).unwrap();
        let exact = exact(canonical.text());
        assert_eq!(value(canonical.text()), value(&exact));
        assert!(!exact.chars().any(|c| is_hidden(c) || is_odd_blank(c)), "{exact}");
        // Tags are beyond the first plane: two units.
        assert!(exact.contains("\\u200b\\udb40\\udc41\\u00a0y"), "{exact}");
        assert_eq!(Canonical::parse(&exact).unwrap().digest(), canonical.digest());
    }
}
