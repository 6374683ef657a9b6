//! The tool that `docs/guide/adding-a-tool.md` adds, word for word.

#[expect(dead_code, reason = "its own tests run in the library's")]
pub(crate) mod text;
pub(crate) mod walls;
