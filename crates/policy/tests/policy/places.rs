//! Which places a call gets, and which it has to ask for.
#![expect(clippy::unwrap_used, reason = "names in a table of tests are valid")]
#![expect(clippy::panic, reason = "another verdict ends a test")]

use contract::{
    Actions, ApprovalId, Category, Digest, EgressClass, HostPattern, Level, OperatorName, Private, Profile,
    Reach, SafetyClass, Scope, Target, ToolName,
};
use policy::{
    Admitted, Agent, Authority, Consent, Credential, CredentialForm, EgressSettings, Facets, Facts, Policy,
    SecretSource, Settings, Standing, ToolFacts, ToolGlob, ToolPlaces, Verdict, WorkspaceAccess, decide,
};

use crate::given::{self, agent, reaches};

fn patterns(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
}

fn facts() -> Facts {
    Facts { operators: 1, ..given::facts() }
}

/// A request of `http.request`.
fn request(action: &str, egress: EgressClass, hosts: &[&str]) -> Admitted {
    let tool = given::tool("http.request", Category::Web, SafetyClass::Network);
    let facets = Facets {
        egress,
        access: WorkspaceAccess::None,
        hosts: hosts.iter().map(|host| Target::parse(host).unwrap()).collect(),
        ..given::facets(action, SafetyClass::Network)
    };
    given::call(ToolFacts { egress: EgressClass::Write, ..tool }, facets)
}

fn reading(hosts: &[&str]) -> Admitted {
    request("web:read", EgressClass::ReadOnly, hosts)
}

/// A command in the profile `networked`.
fn command(hosts: &[&str]) -> Admitted {
    let mut call = request("exec:networked", EgressClass::Write, hosts);
    call.tool.name = ToolName::parse("shell").unwrap();
    call.tool.category = Category::Terminal;
    call.facets.profile = Some(Profile::Networked);
    call
}

fn settings(egress: EgressSettings) -> Settings {
    Settings { egress, ..given::settings(Agent::default()) }
}

fn listing(texts: &[&str]) -> EgressSettings {
    EgressSettings { allow: Some(reaches(texts)), ..EgressSettings::default() }
}

fn verdict(call: &Admitted, settings: &Settings) -> Verdict {
    decide(call, &facts(), &Policy::of(settings.clone()).unwrap()).verdict
}

/// What a call gets once everybody has said yes.
fn approved(call: &Admitted, settings: &Settings) -> Authority {
    let consent = Consent {
        approval: ApprovalId::from_random([2; 16]),
        by: vec![OperatorName::parse("me").unwrap()],
        agent: agent(),
        contract: call.tool.hash,
        arguments: call.arguments,
        operands: None,
        policy: settings.hash().unwrap(),
        why: Vec::new(),
        expires_at: 2_000,
    };
    let facts = Facts { consent: Some(consent), ..facts() };
    match decide(call, &facts, &Policy::of(settings.clone()).unwrap()).verdict {
        Verdict::Allow(grant) => grant.authority().clone(),
        other => panic!("{other:?}"),
    }
}

fn shown(reaches: &[Reach]) -> Vec<String> {
    reaches.iter().map(Reach::to_string).collect()
}

fn refused(call: &Admitted, egress: EgressSettings) -> String {
    match verdict(call, &settings(egress)) {
        Verdict::Deny(reason) => {
            assert_eq!(reason.code.as_str(), "host_not_allowed");
            assert!(reason.hint.is_some());
            reason.message
        }
        other => panic!("{other:?}"),
    }
}

fn why(call: &Admitted, egress: EgressSettings) -> Vec<String> {
    match verdict(call, &settings(egress)) {
        Verdict::Ask(question) => question.why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reading_from_a_listed_host_is_free_and_gets_that_host_and_the_list() {
    let settings = settings(listing(&["api.example:443", "*.cdn.example:443"]));
    let Verdict::Allow(grant) = verdict(&reading(&["api.example:443"]), &settings) else { panic!() };
    assert_eq!(shown(&grant.authority().hosts), ["api.example:443", "*.cdn.example:443"]);
    assert_eq!(grant.authority().egress, EgressClass::ReadOnly);
}

#[test]
fn a_host_that_is_not_listed_is_asked_for_by_name_and_granted_to_that_call_alone() {
    let call = reading(&["other.example:443"]);
    let asked = ["`other.example:443` is on no list of hosts; a yes lets this call reach it"];
    for egress in [EgressSettings::default(), listing(&["api.example:443"]), listing(&["other.example:80"])] {
        assert_eq!(why(&call, egress), asked);
    }
    let settings = settings(EgressSettings::default());
    assert_eq!(shown(&approved(&call, &settings).hosts), ["other.example:443"]);
}

#[test]
fn a_list_that_somebody_left_empty_is_nobody_even_if_people_would_say_yes() {
    let call = reading(&["api.example:443"]);
    assert!(refused(&call, listing(&[])).contains("the list is empty, which means nobody"));
    let of_tool = |allow| EgressSettings {
        by_tool: vec![ToolPlaces { tool: ToolGlob::parse("http.*").unwrap(), allow, block: Vec::new() }],
        ..listing(&["api.example:443"])
    };
    refused(&call, of_tool(Some(Vec::new())));
    assert_eq!(verdict(&call, &settings(of_tool(None))).as_str(), "allow");
}

#[test]
fn a_writing_request_gets_the_host_that_it_names_and_no_other() {
    let settings = settings(listing(&["api.example:443", "cdn.example:443"]));
    let call = request("web:write", EgressClass::Write, &["api.example:443"]);
    let Verdict::Ask(question) = verdict(&call, &settings) else { panic!() };
    assert_eq!(question.why, ["`web:write` is asked for by default", "it would reach `api.example:443`"]);
    assert_eq!(shown(&approved(&call, &settings).hosts), ["api.example:443"]);
}

#[test]
fn a_command_gets_the_list_of_its_category_and_what_its_words_name() {
    let egress = EgressSettings {
        by_category: [(Category::Terminal, reaches(&["registry.example:443"]))].into(),
        ..listing(&["api.example:443"])
    };
    let settings = settings(egress);
    assert_eq!(shown(&approved(&command(&[]), &settings).hosts), ["registry.example:443"]);
    let named = approved(&command(&["api.example:443"]), &settings);
    assert_eq!(shown(&named.hosts), ["api.example:443", "registry.example:443"]);
    assert!(refused(&command(&[]), EgressSettings::default()).contains("there is no list of hosts"));
}

#[test]
fn who_is_asked_is_shown_where_a_command_could_go_and_for_whom_the_gate_lends_its_name() {
    let credential = Credential {
        to: Reach::parse("api.example:443").unwrap(),
        form: CredentialForm::Bearer,
        from: SecretSource::Variable("TOKEN".to_owned()),
    };
    let list = listing(&["api.example:443", "cdn.example:443"]);
    let settings = settings(EgressSettings { credentials: vec![credential], ..list });
    let asked = |words: &[&str]| match verdict(&command(words), &settings) {
        Verdict::Ask(question) => question.why.get(1..).unwrap().to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&[]), ["it could reach what is listed: `api.example:443`, `cdn.example:443`"]);
    let named = [
        "it would reach `api.example:443`, with the credential that this gate has for it",
        "it could reach what is listed: `cdn.example:443`",
    ];
    assert_eq!(asked(&["api.example:443"]), named);
    let names = |words: &[&str]| approved(&command(words), &settings).named;
    assert_eq!(names(&[]), []);
    assert_eq!(names(&["api.example:443"]), [Target::parse("api.example:443").unwrap()]);
}

#[test]
fn a_place_that_only_a_pattern_lists_is_marked_as_such() {
    let marked = |list: &[&str]| {
        let settings = settings(listing(list));
        let Verdict::Allow(grant) = verdict(&reading(&["a.api.example:443"]), &settings) else { panic!() };
        !grant.authority().by_pattern.is_empty()
    };
    assert!(marked(&["*.api.example:443"]));
    assert!(!marked(&["*.api.example:443", "a.api.example:443"]));
}

#[test]
fn what_stays_inside_gets_no_place_whatever_is_listed() {
    let mut call = command(&["api.example:443"]);
    call.facets.egress = EgressClass::None;
    call.facets.profile = Some(Profile::Build);
    call.facets.action = Actions::default().parse("exec:build").unwrap();
    let Verdict::Allow(grant) = verdict(&call, &settings(listing(&["api.example:443"]))) else { panic!() };
    assert_eq!((&grant.authority().hosts, &grant.authority().blocked), (&Vec::new(), &Vec::new()));
}

#[test]
fn a_blocked_host_is_refused_whatever_lists_it_and_the_grant_says_so() {
    let of_tool = ToolPlaces {
        tool: ToolGlob::parse("http.*").unwrap(),
        allow: None,
        block: patterns(&["ads.example"]),
    };
    let egress = EgressSettings {
        by_tool: vec![of_tool],
        block: patterns(&["*.evil.example"]),
        ..listing(&["a.evil.example:443", "ads.example:443", "api.example:443"])
    };
    for host in ["a.evil.example:443", "ads.example:443"] {
        assert!(refused(&reading(&["api.example:443", host]), egress.clone()).contains("is a blocked host"));
    }
    let settings = settings(egress);
    assert_eq!(approved(&command(&[]), &settings).blocked, patterns(&["*.evil.example"]));
    let Verdict::Allow(grant) = verdict(&reading(&["api.example:443"]), &settings) else { panic!() };
    assert_eq!(grant.authority().blocked, patterns(&["ads.example", "*.evil.example"]));
}

#[test]
fn an_open_level_reaches_any_public_host_on_the_configured_ports_and_no_other() {
    let mut open = settings(EgressSettings::default());
    open.agents = [(agent(), Agent { level: Level::Elevated, ..Agent::default() })].into();
    assert_eq!(verdict(&reading(&["anywhere.example:443"]), &open).as_str(), "allow");
    assert_eq!(verdict(&reading(&["anywhere.example:8080"]), &open).as_str(), "ask");
    assert_eq!(verdict(&reading(&["10.0.0.1:443"]), &open).as_str(), "deny");
    assert_eq!(shown(&approved(&command(&[]), &open).hosts), ["*:80", "*:443"]);
    // A list for the very category says more than the level.
    open.egress.by_category = [(Category::Web, reaches(&["api.example:443"]))].into();
    assert_eq!(verdict(&reading(&["anywhere.example:443"]), &open).as_str(), "ask");
}

#[test]
fn a_level_without_a_network_reaches_nothing_that_is_listed() {
    let mut none = settings(listing(&["api.example:443"]));
    let overrides =
        policy::Overrides { network: Some(policy::Network::None), ..policy::Overrides::default() };
    none.agents = [(agent(), Agent { overrides, ..Agent::default() })].into();
    for call in [reading(&["api.example:443"]), command(&[])] {
        assert!(
            matches!(verdict(&call, &none), Verdict::Deny(reason) if reason.code.as_str() == "constrained")
        );
    }
}

#[test]
fn a_private_place_is_refused_until_somebody_opts_in_and_then_asked_for_as_any_other() {
    let call = reading(&["10.0.0.5:443"]);
    assert_eq!(refused(&call, listing(&["10.0.0.0/8:443"])), "`10.0.0.5` is in a private network");
    let mut private = Private::none();
    private.add("10.0.0.0/8").unwrap();
    let opted = EgressSettings { private, ..listing(&["10.0.0.0/24:443"]) };
    assert_eq!(verdict(&call, &settings(opted.clone())).as_str(), "allow");
    assert_eq!(verdict(&reading(&["10.9.0.5:443"]), &settings(opted.clone())).as_str(), "ask");
    refused(&reading(&["192.168.0.1:443"]), opted);
}

#[test]
fn a_yes_for_later_calls_is_one_to_the_places_that_were_shown() {
    let settings = settings(listing(&["api.example:443", "pay.example:443"]));
    let asked = request("web:write", EgressClass::Write, &["api.example:443"]);
    let Verdict::Ask(question) = verdict(&asked, &settings) else { panic!() };
    let standing = Standing {
        approval: ApprovalId::from_random([7; 16]),
        scope: Scope::Type,
        by: vec![OperatorName::parse("me").unwrap()],
        agent: agent(),
        task: None,
        contract: asked.tool.hash,
        action: "web:write".to_owned(),
        profile: None,
        arguments: asked.arguments,
        content: None,
        place: Digest::of(b"/work/project"),
        policy: settings.hash().unwrap(),
        why: question.why,
        expires_at: 2_000,
    };
    let facts = Facts { standing: vec![standing], ..facts() };
    let verdict = |host: &str| {
        let call = request("web:write", EgressClass::Write, &[host]);
        decide(&call, &facts, &Policy::of(settings.clone()).unwrap()).verdict.as_str()
    };
    assert_eq!(verdict("api.example:443"), "allow");
    assert_eq!(verdict("pay.example:443"), "ask");
    assert_eq!(verdict("new.example:443"), "ask");
}
