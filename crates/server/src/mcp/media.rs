//! Pictures, sounds and texts of servers of others, as what they are, where somebody has said that they are passed on.
//!
//! # Invariants
//! - A picture or sound is what its bytes say, whatever its server says; what is none of a few known kinds is not passed on.
//! - A text is cleaned, and is found again under an address of ours.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{CallResult, CallStatus};
use engine::upstream::Passed;
use engine::{Engine, ShownArtifact};
use rmcp::model::{ContentBlock, ResourceContents};

use super::Server;
use super::resources::address_of;

/// The largest picture or sound that is passed on, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// As many of them as one answer has.
const MOST_BLOCKS: usize = 16;

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Image(&'static str),
    Audio(&'static str),
}

/// What bytes are, by how they begin. Kinds that can hold programs or lead elsewhere are not among them.
// ATTACK(page-as-a-picture): whoever shows it would obey it otherwise.
pub(super) fn medium_of(bytes: &[u8]) -> Option<Medium> {
    let inner = bytes.get(8..12);
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Medium::Image("image/png")),
        [0xff, 0xd8, 0xff, ..] => Some(Medium::Image("image/jpeg")),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Medium::Image("image/gif")),
        [b'R', b'I', b'F', b'F', ..] if inner == Some(b"WEBP") => Some(Medium::Image("image/webp")),
        [b'R', b'I', b'F', b'F', ..] if inner == Some(b"WAVE") => Some(Medium::Audio("audio/wav")),
        [b'I', b'D', b'3', ..] | [0xff, 0xfb | 0xf3 | 0xf2, ..] => Some(Medium::Audio("audio/mpeg")),
        [b'O', b'g', b'g', b'S', ..] => Some(Medium::Audio("audio/ogg")),
        [b'f', b'L', b'a', b'C', ..] => Some(Medium::Audio("audio/flac")),
        _ => None,
    }
}

impl Server {
    /// What stands beside the text of an answer.
    pub(super) async fn blocks(&self, engine: &Engine, result: &CallResult) -> Vec<ContentBlock> {
        let upstream = engine.upstream_of(result.tool.as_str());
        let is_passed = upstream.is_some_and(|upstream| upstream.passes(Passed::Media));
        if !is_passed || result.status != CallStatus::Completed {
            return Vec::new();
        }
        let mut blocks = Vec::new();
        for artifact in result.artifacts.iter().take(MOST_BLOCKS) {
            match artifact.name.split('-').next() {
                Some("image" | "audio") => blocks.extend(self.block(result, &artifact.name).await),
                Some("resource") => blocks.extend(self.embedded(result, &artifact.name).await),
                _ => {}
            }
        }
        blocks
    }

    /// A picture or sound that a call has left behind.
    pub(super) async fn block(&self, result: &CallResult, name: &str) -> Option<ContentBlock> {
        let bytes = self.bytes(result, name).await?;
        let data = STANDARD.encode(&bytes);
        Some(match medium_of(&bytes)? {
            Medium::Image(kind) => ContentBlock::image(data, kind),
            Medium::Audio(kind) => ContentBlock::audio(data, kind),
        })
    }

    /// The bytes that a call has left behind, unless they are too many.
    pub(super) async fn bytes(&self, result: &CallResult, name: &str) -> Option<Vec<u8>> {
        let found = self.engine.raw_artifact_for(&self.agent, &result.call_id, name).await;
        found.ok().flatten().filter(|bytes| bytes.len() <= MOST_BYTES)
    }

    async fn embedded(&self, result: &CallResult, name: &str) -> Option<ContentBlock> {
        let found = self.engine.artifact_for(&self.agent, &result.call_id, name).await.ok().flatten();
        match found? {
            ShownArtifact::Text(text) => {
                let contents = ResourceContents::text(text, address_of(&result.call_id, name));
                Some(ContentBlock::resource(contents))
            }
            ShownArtifact::NotText => self.block(result, name).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_they_begin_with() {
        assert_eq!(medium_of(b"\x89PNG\r\n\x1a\n...."), Some(Medium::Image("image/png")));
        assert_eq!(medium_of(b"RIFF\0\0\0\0WAVEfmt "), Some(Medium::Audio("audio/wav")));
        for other in [&b"<svg onload=alert(1)>"[..], b"<html>", b"%PDF-1.7", b"", b"RIFF", b"\x89PN"] {
            assert_eq!(medium_of(other), None, "{other:?}");
        }
    }
}
