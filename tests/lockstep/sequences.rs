//! Sequences of operations, shrunk to the shortest that shows a difference.

use std::cell::RefCell;
use std::fmt::Write;

use leasehold_tests::{TestDb, conformance};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::model::Model;
use crate::operation::{Operation, operation};
use crate::real::Real;

conformance!(
    fn a_database_does_what_the_model_says(db: &mut Db) {
        let cases = crate::cases(30);
        let real = RefCell::new(Real::new(db));
        let steps = RefCell::new(0_u64);
        let mut runner = TestRunner::new(Config {
            cases,
            max_shrink_iters: 2000,
            failure_persistence: None,
            ..Config::default()
        });
        let sequences = prop::collection::vec(operation(), 1..100);
        let run =
            |operations: Vec<Operation>| in_lock_step(&mut real.borrow_mut(), &operations, &mut steps.borrow_mut());
        match runner.run(&sequences, run) {
            Ok(()) => {}
            Err(TestError::Fail(difference, _)) => panic!("{difference}"),
            Err(abort) => panic!("{abort}"),
        }
        crate::report(&format!(
            "lock-step on {}: {cases} sequences, {} steps",
            Db::BACKEND,
            steps.borrow()
        ));
    }
);

fn in_lock_step<D: TestDb>(
    real: &mut Real<'_, D>,
    operations: &[Operation],
    steps: &mut u64,
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    real.clear();
    let mut story = String::new();
    for operation in operations {
        let Some(target) = model.target(operation) else {
            continue;
        };
        *steps += 1;
        let expected = model.apply(&operation.what, &target);
        let _ = writeln!(story, "{:?} {target:?}: {expected:?}", operation.what);
        let answer = real.apply(&operation.what, &target);
        if answer != expected {
            return Err(TestCaseError::fail(format!("{story}but the answer is {answer:?}")));
        }
        let (expected, rows) = (model.view(), real.view());
        if rows != expected {
            let only = |these: &[String], others: &[String]| {
                let lines = these.iter().filter(|line| !others.contains(line));
                lines.fold(String::new(), |all, line| all + "\n  " + line)
            };
            let (missing, found) = (only(&expected, &rows), only(&rows, &expected));
            return Err(TestCaseError::fail(format!(
                "{story}then the model has{missing}\nand the tables{found}"
            )));
        }
    }
    Ok(())
}
