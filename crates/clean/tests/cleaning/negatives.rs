//! What must stay as it is, byte for byte and without a word about it: made here, and the files of this repository.

use std::path::{Path, PathBuf};

use crate::making::{Random, base64};

/// A text without anything wrong, and what it is.
pub(crate) struct Negative {
    pub(crate) name: String,
    pub(crate) text: String,
}

pub(crate) fn all() -> Vec<Negative> {
    let mut all = made();
    all.extend(include_str!("benign.txt").split("\n=== ").skip(1).map(|part| {
        let (name, text) = part.split_once('\n').unwrap();
        Negative { name: name.to_owned(), text: text.to_owned() }
    }));
    all.extend(of_this_repository());
    all
}

/// What tools print all day that looks random.
fn made() -> Vec<Negative> {
    let mut random = Random(2);
    let mut lines = |name: &str, templates: &[&str]| {
        let text = (0..400).map(|at| random.fill(templates[at % templates.len()]) + "\n").collect();
        Negative { name: name.to_owned(), text }
    };
    let mut all = vec![
        lines(
            "npm lock",
            &[
                "      \"integrity\": \"sha512-{b86}==\",",
                "      \"resolved\": \"https://registry.npmjs.org/a/-/a-{d1}.{d1}.{d2}.tgz\",",
                "    \"node_modules/@scope/token-{a4}\": {",
                "      \"license\": \"MIT\",",
            ],
        ),
        lines(
            "yarn lock",
            &[
                "  integrity sha512-{b86}==",
                "  resolved \"https://registry.yarnpkg.com/a/-/a-1.2.{d2}.tgz#{h40}\"",
                "js-tokens@^{d1}.0.0:",
            ],
        ),
        lines(
            "cargo lock",
            &[
                "checksum = \"{h64}\"",
                "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
                "version = \"{d1}.{d2}.{d1}\"",
            ],
        ),
        lines(
            "go sum",
            &[
                "github.com/acme/secret-{a3} v1.{d2}.0 h1:{b43}=",
                "github.com/acme/auth v0.0.0-2024{d4}123456-{h12}/go.mod h1:{b43}=",
            ],
        ),
        lines(
            "python lock",
            &[
                "    {file = \"a-{d1}.whl\", hash = \"sha256:{h64}\"},",
                "    --hash=sha256:{h64} \\",
                "token = \"^{d1}.{d2}\"",
            ],
        ),
        lines(
            "git log",
            &[
                "commit {h40}",
                "Author: Ada <ada@corp.test>",
                "index {h7}..{h7} 100644",
                "    Mend the token parser (#{d4})",
                "Merge: {h7} {h7}",
                "tree {h40}",
                "parent {h40}",
            ],
        ),
        lines(
            "uuids",
            &[
                "id={h8}-{h4}-4{h3}-a{h3}-{h12} status=ok",
                "request_id: {h8}-{h4}-4{h3}-b{h3}-{h12}",
                "\"session\": \"{h8}-{h4}-4{h3}-8{h3}-{h12}\"",
            ],
        ),
        lines(
            "digests",
            &[
                "{h64}  file-{d3}.tar.gz",
                "{h32}  other-{d3}",
                "sha256:{h64}",
                "ETag: \"{h32}\"",
                "docker.io/library/debian@sha256:{h64}",
            ],
        ),
        lines(
            "server log",
            &[
                "10.0.{d1}.{d2} - - [01/Jan/2026:10:00:{d2} +0000] \"GET /a/{h24}?page={d2} HTTP/1.1\" 200 {d4}",
                "time=2026-01-01T00:00:0{d1}Z level=info msg=\"token refreshed\" trace={h32} span={h16}",
                "Password changed for user ada from 10.0.0.{d2}",
            ],
        ),
        lines(
            "addresses",
            &[
                "https://corp.test/a/{h40}?v={h8}",
                "[issue](https://github.com/acme/x/issues/{d4}#issuecomment-{d9})",
                "![shot](https://user-images.githubusercontent.com/{d7}/{d9}-{h8}-{h4}-{h4}-{h4}-{h12}.png)",
                "![x](https://cdn.corp.test/{A20}.png?w=640&h=480&s={h32})",
                "<img src=\"https://cdn.corp.test/i/{h64}.jpg\">",
            ],
        ),
        lines(
            "numbers",
            &[
                "{d20} {d16} {d12}",
                "0x{H16} 0x{H8}",
                "{d4}-{d2}-{d2}T{d2}:{d2}:{d2}.{d6}Z",
                "4{d3} {d4} {d4} {d4}",
            ],
        ),
        lines(
            "minified",
            &[
                "!function(e,t){var n=e.token||t.key,r={a:{d3},b:\"{a8}\"};return n&&r.a>{d2}?e:t}(a{d2},b{d2});",
                "var _0x{h4}=['{a6}','{a8}'];",
            ],
        ),
    ];
    let mut noise = Random(3);
    let picture: Vec<u8> = (0..30_000).map(|_| u8::try_from(noise.below(256)).unwrap()).collect();
    all.push(Negative {
        name: "picture".into(),
        text: format!("![logo](data:image/png;base64,{})\n", base64(&picture)),
    });
    all
}

/// Documents, sources and lock files of this repository, but those that are about attacks on readers.
fn of_this_repository() -> Vec<Negative> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<PathBuf> =
        ["Cargo.lock", "README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md"]
            .map(|name| root.join(name))
            .into();
    for folder in [
        "crates/jail/src",
        "crates/sandbox/src",
        "crates/store/src",
        "crates/tools/src",
        "crates/policy/src",
        "docs/decisions",
    ] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()));
    }
    files.sort();
    let read = |path: PathBuf| {
        Some(Negative {
            name: path.file_name()?.to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&path).ok()?,
        })
    };
    files.into_iter().filter_map(read).collect()
}
