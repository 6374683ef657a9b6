fn forge(authority: policy::Authority) -> policy::Grant {
    policy::Grant { authority }
}

fn main() {}
