fn read(text: &str) -> policy::Grant {
    serde_json::from_str(text).unwrap()
}

fn main() {}
