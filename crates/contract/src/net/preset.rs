//! Places that are granted together, because a kind of work needs them all.

use super::reach::{Reach, ReachError};

/// Every preset and its places.
pub const PRESETS: [(&str, &[&str]); 4] = [
    ("python", &["pypi.org:443", "files.pythonhosted.org:443"]),
    ("node", &["registry.npmjs.org:443", "registry.yarnpkg.com:443", "nodejs.org:443"]),
    ("rust", &["index.crates.io:443", "static.crates.io:443", "crates.io:443", "static.rust-lang.org:443"]),
    (
        "git-hosting",
        &[
            "github.com:443",
            "github.com:22",
            "codeload.github.com:443",
            "raw.githubusercontent.com:443",
            "objects.githubusercontent.com:443",
            "gitlab.com:443",
            "gitlab.com:22",
            "bitbucket.org:443",
            "bitbucket.org:22",
            "codeberg.org:443",
            "codeberg.org:22",
        ],
    ),
];

/// The places of a preset, which is named without `preset:`.
pub fn preset(name: &str) -> Result<Vec<Reach>, ReachError> {
    let Some((_, places)) = PRESETS.into_iter().find(|(known, _)| *known == name) else {
        let there_are = PRESETS.map(|(known, _)| format!("`{known}`")).join(", ");
        return Err(ReachError::NoPreset { name: name.to_owned(), there_are });
    };
    places.iter().map(|place| Reach::parse(place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Private;

    #[test]
    fn every_preset_is_made_of_public_places_in_their_one_spelling() {
        for (name, places) in PRESETS {
            let shown: Vec<String> = preset(name).unwrap().iter().map(Reach::to_string).collect();
            assert_eq!(shown, places);
            assert!(places.iter().all(|place| Reach::permit(place, &Private::none()).is_ok()));
        }
    }

    #[test]
    fn an_unknown_preset_is_answered_with_the_known_ones() {
        let error = preset("ruby").unwrap_err().to_string();
        assert_eq!(error, "there is no preset `ruby`; there are `python`, `node`, `rust`, `git-hosting`");
    }
}
