//! `roles`: least-privilege roles on PostgreSQL, as SQL.

use leasehold::Schema;
use leasehold::migrate::{Migrations, RoleNames};

use crate::cli::Roles;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn print(roles: &Roles, schema: &str, output: Output) -> Result<(), Failure> {
    let usage = |error: leasehold::migrate::RoleNameError| Failure::Usage(error.to_string());
    let mut names = RoleNames::new().prefix(&roles.prefix).map_err(usage)?;
    if roles.reader_sees_payloads {
        names = names.reader_sees_payloads();
    }
    for login in &roles.pooled_login {
        names = names.pooled_login(login).map_err(usage)?;
    }
    output.print(&Migrations::in_schema(&Schema::named(schema)?).roles_sql(&names))
}
