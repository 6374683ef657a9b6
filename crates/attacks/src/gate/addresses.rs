use crate::gate::case::Case;
pub(crate) fn cases() -> Vec<Case> { Vec::new() }
