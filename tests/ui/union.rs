use leasehold::Job;

#[derive(Job)]
#[job(kind = "union")]
union Either {
    number: u64,
    bytes: [u8; 8],
}

fn main() {}
