fn forge(authority: policy::Authority) -> policy::Grant {
    policy::Grant::new(authority)
}

fn main() {}
