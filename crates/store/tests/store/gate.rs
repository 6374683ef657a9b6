//! A store in a folder of its own, and things to put into it.

use contract::{
    AgentName, ApprovalId, CallId, CallStatus, Digest, OperatorName, ReceiptBody, TaskName, ToolName,
};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqliteConnection};
use store::{Answer, Course, Keys, NewApproval, NewCall, Recorded, Role, Settlement, Store, Vote};

pub(crate) const NOW: i64 = 1_790_000_000_000;
pub(crate) const LATER: i64 = NOW + 300_000;

pub(crate) struct Gate {
    pub(crate) home: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Gate {
    /// A new store, with the operators `me`, `you` (approvers) and `guest` (a viewer).
    pub(crate) async fn open() -> Gate {
        let home = tempfile::tempdir().unwrap();
        let store = open(&home).await;
        for (name, role) in [("me", Role::Admin), ("you", Role::Approver), ("guest", Role::Viewer)] {
            store.add_operator(&operator(name), role, Digest::of(name.as_bytes()), NOW).await.unwrap();
        }
        Gate { home, store }
    }

    /// The same store, as another process has it.
    pub(crate) async fn again(&self) -> Store {
        open(&self.home).await
    }

    /// The same file, without us.
    pub(crate) async fn raw(&self) -> Raw {
        let url = format!("sqlite:{}", self.home.path().join("store.db").display());
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        connection.execute("PRAGMA synchronous = OFF; PRAGMA busy_timeout = 10000").await.unwrap();
        Raw(connection)
    }

    pub(crate) async fn record(&self, call: NewCall) -> i64 {
        match self.store.record_call(call).await.unwrap() {
            Recorded::New { seq } => seq,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn settle(&self, call: &NewCall, status: CallStatus) -> i64 {
        self.store.settle(settlement(call, status)).await.unwrap().seq
    }

    /// Records a call that waits, and a yes to it.
    pub(crate) async fn approved(&self, number: u8) -> NewCall {
        let call = asking(number);
        self.record(call.clone()).await;
        self.store.answer(&approval(number), yes("me")).await.unwrap();
        call
    }
}

async fn open(home: &tempfile::TempDir) -> Store {
    let keys = Keys::load_or_create(home.path()).unwrap();
    Store::open(&format!("sqlite:{}", home.path().join("store.db").display()), keys).await.unwrap()
}

/// Raw SQL, as someone with a prompt would type it.
pub(crate) struct Raw(SqliteConnection);

impl Raw {
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), String> {
        let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await;
        done.map(drop).map_err(|error| error.as_database_error().unwrap().message().to_owned())
    }

    pub(crate) async fn text(&mut self, sql: &str) -> String {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap();
        row.try_get::<String, _>(0).unwrap()
    }

    pub(crate) async fn number(&mut self, sql: &str) -> i64 {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap();
        row.try_get(0).unwrap()
    }

    pub(crate) async fn bytes(&mut self, sql: &str) -> Vec<u8> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap();
        row.try_get_unchecked(0).unwrap()
    }

    /// Takes away every rule that the database itself enforces.
    pub(crate) async fn drop_rules(&mut self) {
        self.run("PRAGMA foreign_keys = OFF").await.unwrap();
        loop {
            let left = self.number("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'").await;
            if left == 0 {
                return;
            }
            let name = self.text("SELECT name FROM sqlite_schema WHERE type = 'trigger' LIMIT 1").await;
            self.run(&format!("DROP TRIGGER {name}")).await.unwrap();
        }
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
    let question = NewApproval { id: approval(number), why, quorum, expires_at: LATER };
    NewCall { course: Course::Ask(question), ..running(number) }
}

pub(crate) fn refused(number: u8) -> NewCall {
    NewCall { course: Course::Refuse, ..running(number) }
}

pub(crate) fn yes(by: &str) -> Answer {
    answer(by, Vote::Approve)
}

pub(crate) fn no(by: &str) -> Answer {
    answer(by, Vote::Reject)
}

fn answer(by: &str, vote: Vote) -> Answer {
    Answer { vote, by: operator(by), via: "cli".into(), reason: Some("because".into()), now: NOW + 1000 }
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
        status,
        reason: None,
        run: None,
        asked_at: call.asked_at,
        settled_at: NOW + 2000,
    };
    Settlement {
        call: call.id.clone(),
        status,
        body,
        result: json!({ "content": "done" }),
        artifacts: Vec::new(),
        now: NOW + 2000,
    }
}
