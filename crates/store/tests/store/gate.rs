//! A store of its own, and things to put into it.

use std::io::Write;
use std::path::Path;

use contract::{
    AgentName, ApprovalId, CallId, CallStatus, Digest, EgressClass, OperatorName, Profile, ReceiptBody,
    SafetyClass, TaskName, ToolName,
};
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Executor, Row};
use store::{About, Answer, Course, Keys, NewApproval, NewCall, Recorded, Role, Settlement, Store, Vote};

use super::Database;
use crate::DATABASE;

pub(crate) const NOW: i64 = 1_790_000_000_000;
pub(crate) const LATER: i64 = NOW + 300_000;

pub(crate) struct Gate {
    pub(crate) home: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) url: String,
}

impl Gate {
    /// A new store, with the operators `me`, `you` (approvers) and `guest` (a viewer).
    pub(crate) async fn open() -> Gate {
        let gate = Gate::open_empty().await;
        for (name, role) in [("me", Role::Admin), ("you", Role::Approver), ("guest", Role::Viewer)] {
            gate.store.add_operator(&operator(name), role, Digest::of(name.as_bytes()), NOW).await.unwrap();
        }
        gate
    }

    /// A new store in which nothing has happened.
    pub(crate) async fn open_empty() -> Gate {
        let home = tempfile::tempdir().unwrap();
        let url = new_place(home.path()).await;
        let keys = Keys::load_or_create(home.path()).unwrap();
        let store = Store::open(&url, keys).await.unwrap();
        Gate { home, store, url }
    }

    /// The same store, as another process has it.
    pub(crate) async fn again(&self) -> Store {
        Store::open(&self.url, self.store.keys().clone()).await.unwrap()
    }

    /// The same database, without us.
    pub(crate) async fn raw(&self) -> Raw {
        Raw::connect(&self.url).await
    }

    /// All that is in it now, as a store of its own.
    pub(crate) async fn copy(&self) -> Store {
        let keys = self.store.keys().clone();
        if DATABASE == Database::Sqlite {
            let copy = self.home.path().join("copy.db");
            self.raw().await.run(&format!("VACUUM INTO '{}'", copy.display())).await.unwrap();
            return Store::open(&format!("sqlite:{}", copy.display()), keys).await.unwrap();
        }
        let url = new_place(self.home.path()).await;
        let store = Store::open(&url, keys).await.unwrap();
        let mut raw = Raw::connect(&url).await;
        raw.drop_rules().await;
        let schema = |url: &str| url.rsplit_once("%3D").unwrap().1.to_owned();
        let from = schema(&self.url);
        raw.run("TRUNCATE gate").await.unwrap();
        for table in [
            "gate",
            "ledger",
            "head",
            "checkpoints",
            "operators",
            "gates",
            "calls",
            "approvals",
            "answers",
            "answer_entries",
            "questions",
            "standing",
            "revocations",
            "standing_ends",
            "receipts",
            "reconciliations",
        ] {
            raw.run(&format!("INSERT INTO {table} SELECT * FROM {from}.{table}")).await.unwrap();
        }
        store
    }

    pub(crate) async fn record(&self, call: NewCall) -> i64 {
        match self.store.record_call(call).await.unwrap() {
            Recorded::New { seq } => seq,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn settle(&self, call: &NewCall, status: CallStatus) -> i64 {
        self.store.settle(&settlement(call, status)).await.unwrap().seq
    }

    /// Records a call that waits, and a yes to it.
    pub(crate) async fn approved(&self, number: u8) -> NewCall {
        let call = asking(number);
        self.record(call.clone()).await;
        self.store.answer(&approval(number), yes("me")).await.unwrap();
        call
    }
}

/// Where a store can be that nobody else has: a file in a folder, or a schema of the test server.
pub(crate) async fn new_place(home: &Path) -> String {
    if DATABASE == Database::Sqlite {
        return format!("sqlite:{}", home.join("store.db").display());
    }
    let server = server();
    let schema = format!("t{}", ApprovalId::from_random(random()));
    Raw::connect(&server).await.run(&format!("CREATE SCHEMA {schema}")).await.unwrap();
    let mark = if server.contains('?') { '&' } else { '?' };
    format!("{server}{mark}options=-csearch_path%3D{schema}")
}

/// The URL of the test server. Without one there is nothing to test: that is said aloud, and fails where
/// `TOOLGATE_REQUIRE` names `postgres`.
#[expect(clippy::disallowed_methods, reason = "a test is told by its environment which server it may use")]
pub(crate) fn server() -> String {
    if let Some(url) = std::env::var("TOOLGATE_TEST_POSTGRES").ok().filter(|url| !url.is_empty()) {
        return url;
    }
    let required = std::env::var("TOOLGATE_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name == "postgres"), "TOOLGATE_TEST_POSTGRES names no server");
    // Past the test harness, which would keep it to itself; and for all tests of this file at once.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: the store on PostgreSQL: TOOLGATE_TEST_POSTGRES names no server"
    );
    std::process::exit(0)
}

fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// Raw SQL, as someone with a prompt would type it.
pub(crate) struct Raw(AnyConnection);

impl Raw {
    pub(crate) async fn connect(url: &str) -> Raw {
        store::danger::install_drivers();
        let mut connection = AnyConnection::connect(url).await.unwrap();
        if DATABASE == Database::Sqlite {
            connection.execute("PRAGMA synchronous = OFF").await.unwrap();
        }
        Raw(connection)
    }

    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), String> {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await;
        done.map(drop).map_err(|error| error.as_database_error().unwrap().message().to_owned())
    }

    /// Runs it, and takes it back.
    pub(crate) async fn try_out(&mut self, sql: &str) -> Result<(), String> {
        let done = self.run(&format!("BEGIN; {sql}; ROLLBACK")).await;
        let _ = self.run("ROLLBACK").await;
        done
    }

    pub(crate) async fn text(&mut self, sql: &str) -> String {
        self.texts(sql).await.pop().unwrap()
    }

    pub(crate) async fn texts(&mut self, sql: &str) -> Vec<String> {
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.0).await.unwrap();
        rows.iter().map(|row| row.try_get(0).unwrap()).collect()
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap();
        row.try_get(0).unwrap()
    }

    pub(crate) async fn bytes(&mut self, sql: &str) -> Vec<u8> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap();
        row.try_get(0).unwrap()
    }

    pub(crate) async fn drop_rule(&mut self, table: &str, rule: &str) {
        let sql = match DATABASE {
            Database::Sqlite => format!("DROP TRIGGER {rule}"),
            Database::Postgres => format!("DROP TRIGGER {rule} ON {table}"),
        };
        self.run(&sql).await.unwrap();
    }

    /// Takes away every rule that the database itself enforces.
    pub(crate) async fn drop_rules(&mut self) {
        if DATABASE == Database::Postgres {
            let tables =
                self.texts("SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()").await;
            for table in tables {
                self.run(&format!("ALTER TABLE {table} DISABLE TRIGGER ALL")).await.unwrap();
            }
            return;
        }
        self.run("PRAGMA foreign_keys = OFF").await.unwrap();
        for rule in self.texts("SELECT name FROM sqlite_schema WHERE type = 'trigger'").await {
            self.drop_rule("", &rule).await;
        }
    }
}

/// Every way to insert, as what stands before `INTO` and what stands at the end.
pub(crate) fn insertions() -> &'static [(&'static str, &'static str)] {
    match DATABASE {
        Database::Sqlite => {
            &[("INSERT", ""), ("INSERT OR REPLACE", ""), ("REPLACE", ""), ("INSERT OR IGNORE", "")]
        }
        Database::Postgres => &[("INSERT", ""), ("INSERT", " ON CONFLICT DO NOTHING")],
    }
}

/// Every way to empty a table.
pub(crate) fn removals(table: &str) -> Vec<String> {
    let mut ways = vec![format!("DELETE FROM {table}")];
    if DATABASE == Database::Postgres {
        ways.push(format!("TRUNCATE {table} CASCADE"));
    }
    ways
}

/// So many bytes of nothing.
pub(crate) fn zeros(length: usize) -> String {
    bytes_in_sql(&vec![0; length])
}

pub(crate) fn bytes_in_sql(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match DATABASE {
        Database::Sqlite => format!("x'{hex}'"),
        Database::Postgres => format!("decode('{hex}', 'hex')"),
    }
}

pub(crate) fn operator(name: &str) -> OperatorName {
    OperatorName::parse(name).unwrap()
}

pub(crate) fn call_id(number: u8) -> CallId {
    CallId::from_random([number; 16])
}

pub(crate) fn approval(number: u8) -> ApprovalId {
    ApprovalId::from_random([number; 16])
}

/// A call that runs at once.
pub(crate) fn running(number: u8) -> NewCall {
    let arguments = json!({ "path": format!("file-{number}") }).to_string();
    NewCall {
        id: call_id(number),
        agent: AgentName::parse("builder").unwrap(),
        task: Some(TaskName::parse("task").unwrap()),
        tool: ToolName::parse("fs.write").unwrap(),
        contract: Digest::of(b"contract"),
        request: Digest::of(format!("builder task fs.write {arguments}").as_bytes()),
        arguments: Digest::of(arguments.as_bytes()),
        arguments_json: arguments,
        policy: Digest::of(b"policy"),
        purpose: Some("to test".into()),
        trace: json!([{ "layer": "level", "found": "allowed" }]),
        safety: SafetyClass::Read,
        asked_at: NOW + i64::from(number),
        claim: None,
        course: Course::Run { authority: json!({ "workspace": "read_write" }) },
    }
}

/// A call that waits for one person.
pub(crate) fn asking(number: u8) -> NewCall {
    asking_for(number, 1)
}

pub(crate) fn asking_for(number: u8, quorum: u32) -> NewCall {
    let why = vec!["it deletes".to_owned()];
    let question = NewApproval {
        most_open: u64::MAX,
        id: approval(number),
        why,
        quorum,
        expires_at: LATER,
        about: Some(Box::new(about())),
        escalation: Vec::new(),
        seal: None,
    };
    NewCall { course: Course::Ask(question), ..running(number) }
}

pub(crate) fn refused(number: u8) -> NewCall {
    NewCall { course: Course::Refuse, ..running(number) }
}

/// What every question here is about.
pub(crate) fn about() -> About {
    About {
        workspace: "/work".into(),
        place: Digest::of(b"/work"),
        action: "exec:mutate".into(),
        safety: SafetyClass::Write,
        egress: EgressClass::None,
        profile: Some(Profile::Mutate),
        content: Some(Digest::of(b"")),
        proposer: None,
    }
}

pub(crate) fn yes(by: &str) -> Answer {
    answer(by, Vote::Approve)
}

pub(crate) fn no(by: &str) -> Answer {
    answer(by, Vote::Reject)
}

fn answer(by: &str, vote: Vote) -> Answer {
    Answer {
        vote,
        by: operator(by),
        via: "cli".into(),
        reason: Some("because".into()),
        standing: None,
        now: NOW + 1000,
    }
}

pub(crate) fn settlement(call: &NewCall, status: CallStatus) -> Settlement {
    let body = ReceiptBody {
        version: 1,
        call_id: call.id.clone(),
        agent: call.agent.clone(),
        task: call.task.clone(),
        purpose: call.purpose.clone(),
        tool: call.tool.clone(),
        contract: call.contract,
        request: call.request,
        arguments: call.arguments,
        policy: call.policy,
        approval: None,
        operands: None,
        status,
        reason: None,
        run: None,
        cost: None,
        asked_at: call.asked_at,
        settled_at: NOW + 2000,
        reconciled: None,
    };
    Settlement {
        call: call.id.clone(),
        status,
        body,
        result: json!({ "content": "done" }).to_string(),
        raw: None,
        artifacts: Vec::new(),
        now: NOW + 2000,
    }
}
