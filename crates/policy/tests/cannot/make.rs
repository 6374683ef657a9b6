fn forge(authority: policy::Authority) -> policy::Grant {
    policy::Grant { authority: Box::new(authority) }
}

fn main() {}
