fn copy(grant: &policy::Grant) -> policy::Grant {
    grant.clone()
}

fn main() {}
