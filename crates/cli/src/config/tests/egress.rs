//! What may be reached: what lists mean, and what is said about those that mean nothing.

use contract::{Category, HostPattern, Reach};
use policy::{CredentialForm, EgressSettings, SecretSource};

use super::{load, loaded};

fn egress(text: &str) -> EgressSettings {
    loaded(text).meaning.settings.egress
}

fn shown(reaches: &[Reach]) -> Vec<String> {
    reaches.iter().map(Reach::to_string).collect()
}

fn refused(text: &str) -> String {
    match load("toolgate.yaml", text.as_bytes()) {
        Ok(loaded) => panic!("{text} was read as {:?}", loaded.meaning.settings.egress),
        Err(problems) => problems,
    }
}

#[test]
fn a_grant_that_nobody_should_write_is_refused_where_it_stands_with_the_reason() {
    for (grant, error) in [
        (
            "*",
            "2:11: `*` would be every host; name the hosts, as in `example.com:443` or `*.example.com:443`",
        ),
        (
            "*:443",
            "2:11: `*:443` would be every host; name the hosts, as in `example.com:443` or `*.example.com:443`",
        ),
        (
            "*.com:443",
            "2:11: `*.com:443` would be every host below `com`, where anybody can have one; name a domain below it",
        ),
        ("http://x", "2:11: `http://x` is a URL; write the host and the port alone: `x:80`"),
        ("x", "2:11: `x` has no port; write `x:443`, if that is the one"),
        ("x:99999", "2:11: `99999` is no port: a number from 1 to 65535"),
        ("x:0", "2:11: `0` is no port: a number from 1 to 65535"),
        ("me:pass@x:443", "2:11: a place to reach has no user: write what stands after the `@` alone"),
        ("x/a:443", "2:11: `x/a:443` has a path; a place is reached as a whole: write `host:port`"),
        (
            "10.0.0.0/8",
            "2:11: `10.0.0.0/8` is in a private network; list it under `private` as well, if it is meant",
        ),
        (
            "10.0.0.0/8:443",
            "2:11: `10.0.0.0/8` is in a private network; list it under `private` as well, if it is meant",
        ),
        (
            "169.254.169.254:80",
            "2:11: `169.254.169.254` is a metadata service; list it under `private` as well, if it is meant",
        ),
        (
            "localhost:80",
            "2:11: `localhost` is this machine itself; list it under `private` as well, if it is meant",
        ),
        (
            "2130706433:80",
            "2:11: `2130706433` is another spelling of the address 127.0.0.1; write that, if it is meant",
        ),
        (
            "pаypal.com:443",
            "2:11: `pаypal.com:443` looks like another name than it is; write `xn--pypal-4ve.com:443`, if that is meant",
        ),
        ("a\\0b:443", "2:11: a host may not hold `⟨U+0000⟩`"),
        ("preset:ruby", "2:11: there is no preset `ruby`; there are `python`, `node`, `rust`, `git-hosting`"),
    ] {
        assert_eq!(refused(&format!("egress:\n  allow: [\"{grant}\"]")), error, "{grant}");
        let of_category = refused(&format!("egress:\n  overrides: {{web: [\"{grant}\"]}}"));
        assert_eq!(of_category, error.replacen("2:11", "2:21", 1), "{grant}");
        let of_containers = refused(&format!("sandboxing:\n  docker: {{allowed_hosts: [\"{grant}\"]}}"));
        assert_eq!(of_containers, error.replacen("2:11", "2:28", 1), "{grant}");
    }
}

#[test]
fn a_list_that_is_left_out_is_no_list_and_an_empty_one_is_nobody() {
    assert_eq!(egress("{}"), EgressSettings::default());
    assert_eq!(egress("egress: {}").allow, None);
    assert_eq!(egress("egress: {allow: []}").allow, Some(Vec::new()));
    let http = egress("tools: {http: {allowed_domains: []}}").by_tool;
    assert_eq!(http.iter().map(|places| &places.allow).collect::<Vec<_>>(), [&Some(Vec::new())]);
    assert_eq!(egress("tools: {http: {timeout_ms: 5}}").by_tool, []);
}

#[test]
fn presets_ranges_and_patterns_become_places_in_one_order() {
    let egress = egress(
        "egress:\n  allow: [preset:python, \"*.Example.ORG:443\", \"192.31.0.0/20:22\", pypi.org.:443]",
    );
    let listed = ["files.pythonhosted.org:443", "pypi.org:443", "*.example.org:443", "192.31.0.0/20:22"];
    assert_eq!(shown(&egress.allow.unwrap()), listed);
}

#[test]
fn domains_are_exact_unless_they_have_a_star_and_mean_the_configured_ports() {
    let text = "egress: {ports: [443, 8443]}\ntools:\n  http:\n    allowedDomains: [api.example.com, \"*.example.org\", b.example:80]\n    blockedDomains: [localhost, 127.0.0.1, \"*.evil.example\"]";
    let by_tool = egress(text).by_tool;
    let [http] = by_tool.as_slice() else { panic!("{by_tool:?}") };
    assert_eq!(http.tool.as_str(), "http.*");
    assert_eq!(
        shown(http.allow.as_ref().unwrap()),
        [
            "api.example.com:443",
            "api.example.com:8443",
            "b.example:80",
            "*.example.org:443",
            "*.example.org:8443"
        ]
    );
    let blocked: Vec<String> = http.block.iter().map(HostPattern::to_string).collect();
    assert_eq!(blocked, ["localhost", "127.0.0.1", "*.evil.example"]);
}

#[test]
fn a_star_among_domains_is_any_public_host() {
    let by_tool = egress("tools: {browser: {allowedDomains: [\"*\"]}}").by_tool;
    let public = |port| Reach { host: HostPattern::Public, port };
    assert_eq!(by_tool[0].allow, Some(vec![public(80), public(443)]));
    assert!(refused("tools: {http: {allowed_domains: [\"*:443\"]}}").contains("would be every host"));
    assert!(refused("tools: {http: {allowed_domains: [localhost]}}").contains("is this machine itself"));
    assert!(refused("tools: {http: {allowed_domains: [\"*.com\"]}}").contains("every host below `com`"));
}

#[test]
fn private_places_are_listed_by_whoever_opts_in_to_them() {
    let egress = egress(
        "egress: {private: [10.0.0.0/8, db.internal], allow: [\"10.1.0.0/16:5432\", \"db.internal:5432\"]}",
    );
    assert_eq!(shown(&egress.allow.unwrap()), ["db.internal:5432", "10.1.0.0/16:5432"]);
    for (entry, error) in [
        ("0.0.0.0/0", "1:20: `0.0.0.0/0` is not wholly private, and needs no entry here for what is not"),
        ("8.8.8.8", "1:20: `8.8.8.8` is not wholly private, and needs no entry here for what is not"),
        ("10.0.0.1/8", "1:20: `10.0.0.1/8` is an address inside a range; the range is `10.0.0.0/8`"),
    ] {
        assert_eq!(refused(&format!("egress: {{private: [{entry}]}}")), error);
    }
    let metadata = "egress: {private: [169.254.0.0/16], allow: [\"169.254.169.254:80\"]}";
    assert!(refused(metadata).contains("is a metadata service"));
}

#[test]
fn what_is_blocked_is_a_host_without_a_port() {
    for (entry, error) in [
        ("http://x", "1:18: a host may not hold `:`"),
        ("x:443", "1:18: a host may not hold `:`"),
        ("*", "1:18: a host may not hold `*`"),
        ("0x7f.1", "1:18: `0x7f.1` is another spelling of the address 127.0.0.1; write that, if it is meant"),
    ] {
        let message = format!("{error}; what is blocked is a host without a port, or `*.` and a name");
        assert_eq!(refused(&format!("egress: {{block: [\"{entry}\"]}}")), message);
    }
    assert_eq!(egress("egress: {block: [\"*.com\"]}").block.len(), 1);
}

#[test]
fn a_bridge_without_allowed_hosts_leads_nowhere() {
    let text = |rest: &str| {
        format!(
            "sandboxing:\n  overrides: {{web: docker, database: docker}}\n  docker:\n    network: none\n    network_overrides: {{web: bridge}}\n{rest}"
        )
    };
    let lists = |text: &str| egress(text).by_category;
    let nowhere = [(Category::Database, Vec::new()), (Category::Web, Vec::new())];
    assert_eq!(lists(&text("")), nowhere.clone().into());
    assert_eq!(lists(&text("    allowed_hosts: []")), nowhere.into());
    let some = lists(&text("    allowed_hosts: [\"pypi.org:443\"]"));
    assert_eq!(
        (shown(&some[&Category::Web]), shown(&some[&Category::Database])),
        (vec!["pypi.org:443".into()], vec![])
    );
    // Containers say nothing about what does not run in them.
    assert_eq!(lists("sandboxing: {docker: {network: none}}"), [].into());
}

#[test]
fn a_secret_is_named_by_where_it_is_and_is_never_repeated() {
    let credential = |rest: &str| format!("egress: {{credentials: [{{host: api.example.com, {rest}}}]}}");
    let sources = "a secret does not stand here, but where it is to be had: `env:NAME`, `file:PATH`, `vault:PATH#FIELD` or `keyring:NAME`";
    for from in ["hunter2", "env:", "env:A-B", "file:", "vault:a", "vault:../a#b", "keyring:", "http://x"] {
        let problem = refused(&credential(&format!("from: \"{from}\", bearer: true")));
        assert_eq!(problem, format!("1:54: {sources}"), "{from}");
    }
    let one = "a credential is added in one way: `header`, `bearer: true`, `basic`, `query`, `body`, `sigv4` or `ssh_key: true`";
    let forms = [
        "",
        ", bearer: false",
        ", bearer: true, header: x",
        ", basic: a, query: b",
        ", ssh_key: true, basic: a",
    ];
    for forms in forms {
        assert!(refused(&credential(&format!("from: \"env:A\"{forms}"))).ends_with(one), "{forms}");
    }
    assert!(
        refused(&credential("from: \"env:A\", header: \"a b\"")).ends_with("`a b` is no name of a header")
    );
    assert!(
        refused(&credential("from: \"env:A\", header: Host")).ends_with("no header that can carry a secret")
    );
    assert!(
        refused(&credential("from: \"env:A\", body: \"{{X}}\""))
            .ends_with("a placeholder has at least 8 bytes")
    );
    let twice = "egress: {credentials: [{host: a.example, from: \"env:A\", bearer: true}, {host: a.example, from: \"env:B\", basic: me}]}";
    assert!(
        refused(twice).ends_with("two credentials for `a.example:443` go to the same place of a request")
    );
    assert!(
        refused(&credential("from: \"vault:a/b#c\", bearer: true")).contains("there is no `egress.vault`")
    );
    assert!(refused("egress: {credentials: [{bearer: true}]}").contains("`host` is missing"));
    let range = "egress: {credentials: [{host: \"192.31.0.0/20:443\", from: \"env:A\", bearer: true}]}";
    assert!(refused(range).contains("a secret goes to a host"));
    let read = egress(&credential("from: \"env:API_TOKEN\", bearer: true")).credentials;
    assert_eq!(read[0].to.to_string(), "api.example.com:443");
    assert_eq!(read[0].from, SecretSource::Variable("API_TOKEN".to_owned()));
}

#[test]
fn a_key_for_ssh_is_for_its_usual_port() {
    let text = |host: &str| {
        format!("egress: {{credentials: [{{host: \"{host}\", from: \"env:KEY\", ssh_key: true}}]}}")
    };
    let read = |host: &str| egress(&text(host)).credentials.remove(0);
    assert_eq!(read("git.example.com").to.to_string(), "git.example.com:22");
    assert_eq!(read("git.example.com:2222").to.to_string(), "git.example.com:2222");
    assert_eq!(read("git.example.com").form, CredentialForm::SshKey);
}

#[test]
fn the_keys_of_hosts_are_lines_that_are_understood() {
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMxJCfKuA55wGp+li2CF+ZfUkTiiA0qAPvum6C3J+6k0";
    let text = |line: &str| format!("egress: {{known_hosts: [\"{line}\"]}}");
    let read = egress(&text(&format!("Git.example.com,[git.example.com]:2222 {KEY} a comment"))).known_hosts;
    assert_eq!(read, [format!("[git.example.com]:2222 {KEY}"), format!("git.example.com {KEY}")]);
    for (line, error) in [
        ("git.example.com", "a known host is a line such as `example.com ssh-ed25519 AAAA…`"),
        (&format!("*.example.com {KEY}"), "`*.example.com` is a pattern: name one host"),
        (&format!("|1|a|b {KEY}"), "the name is hashed: write the host in the open"),
        (&format!("@revoked a.example {KEY}"), "`@revoked` is not understood: name the host's own key"),
        (
            &format!("[a.example] {KEY}"),
            "`[a.example]` is no host such as `example.com` or `[example.com]:2222`",
        ),
        ("a.example ssh-ed25519 AAAA", "the key of `a.example` cannot be read"),
    ] {
        assert_eq!(refused(&text(line)), format!("1:24: {error}"), "{line}");
    }
}

#[test]
fn other_settings_of_the_network_are_held_to_what_makes_sense() {
    for (text, error) in [
        ("egress: {ports: [0]}", "1:18: `0` is no port: a number from 1 to 65535"),
        ("egress: {ports: [70000]}", "1:18: `70000` is no port: a number from 1 to 65535"),
        (
            "egress: {nameservers: [dns.example]}",
            "1:24: `dns.example` is no address such as `192.0.2.53` or `192.0.2.53:53`",
        ),
        ("egress: {limits: {connections: 0}}", "1:32: `connections` is `0`, not from 1 to 4096"),
        ("egress: {limits: {bytes: 9x}}", "1:26: `x` is not a unit; use k, m, g or t"),
        ("tools: {http: {methods: [get]}}", "1:26: `get` is no method such as `GET` or `POST`"),
        ("tools: {http: {methods: [CONNECT]}}", "1:26: `CONNECT` is no method such as `GET` or `POST`"),
        ("tools: {http: {max_response: 0}}", "1:30: `max_response` is `0`, not from 1 to 1073741824"),
        (
            "egress: {vault: {address: \"http://me:hunter2@v\", token: \"env:A\"}}",
            "1:27: the address of a vault is one such as `https://vault.example.com:8200`",
        ),
        (
            "egress: {vault: {address: \"https://v\", token: \"keyring:a\"}}",
            "1:47: the token of a vault comes from `env:NAME` or `file:PATH`",
        ),
        ("egress: {alow: []}", "1:10: unknown key `alow`, did you mean `allow`?"),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn a_token_for_one_server_is_shown_to_no_other_at_the_same_place() {
    let servers =
        |one: &str, other: &str| format!("mcp:\n  servers:\n    a: {{ {one} }}\n    b: {{ {other} }}");
    let token = "auth: { bearer: \"env:A_AT\" }";
    let with = |path: &str| format!("url: \"https://m.example/{path}\", {token}");
    let without = |place: &str| format!("url: \"https://{place}/b\"");
    for text in [servers(&with("a"), &without("m.example")), servers(&without("m.example:443"), &with("a"))] {
        let problem = refused(&text);
        assert!(problem.contains("`a` is at `m.example:443`, too"), "{problem}");
    }
    egress(&servers(&with("a"), &without("n.example")));
    egress(&servers(&without("m.example"), &without("m.example")));
}
