//! `fs.edit`.

use contract::Reason;

use super::diff;
use super::read::{check_size, read_whole, text_of};
use super::root::Root;
use super::write::{Replace, put};
use crate::files::{EditInput, EditOutput};
use crate::path::shown;
use crate::wire::Changed;

pub(super) fn edit(root: &Root<'_>, input: &EditInput, changed: &mut Changed) -> Result<EditOutput, Reason> {
    if input.old.is_empty() {
        return Err(Reason::bad_arguments("`old` is empty")
            .with_hint("use `fs.write` for a new file, `fs.append` to add at the end"));
    }
    if input.old == input.new {
        return Err(Reason::bad_arguments("`old` and `new` are the same, so nothing would change"));
    }
    let (place, name) = root.find_to_change(&input.path)?;
    let text = text_of(&input.path, read_whole(root, &place)?)?;
    let found: Vec<usize> = text.match_indices(input.old.as_str()).map(|(at, _)| at).collect();
    check_matches(input, &text, found.len())?;
    let replaced = found.len();
    let grown =
        (text.len() - replaced * input.old.len()).saturating_add(replaced.saturating_mul(input.new.len()));
    check_size(root, &input.path, grown as u64)?;
    let after = text.replace(input.old.as_str(), &input.new);
    put(&place, &name, after.as_bytes(), Replace::File)?;
    let path = place.path.to_string_lossy().into_owned();
    changed.note(path.clone(), "modified");
    let diff = diff::of_replacements(&text, &found, &input.old, &input.new);
    Ok(EditOutput { path, replaced: replaced as u64, size: after.len() as u64, diff })
}

fn check_matches(input: &EditInput, text: &str, found: usize) -> Result<(), Reason> {
    let shown = shown(&input.path);
    match found {
        0 => {
            let hint = if text.contains(input.old.trim()) && !input.old.trim().is_empty() {
                "only its spaces or line breaks differ: read the file and copy the text exactly"
            } else if text.contains('\r') && !input.old.contains('\r') {
                "the lines of this file end in `\\r\\n`"
            } else {
                "read the file again: it is not as you remember it"
            };
            Err(Reason::tool_failed(format!("`old` is not in `{shown}`")).with_hint(hint))
        }
        1 => Ok(()),
        _ if input.all => Ok(()),
        found => Err(Reason::tool_failed(format!("`old` is in `{shown}` {found} times"))
            .with_hint("take in more lines around it, or set `all`")),
    }
}
