"""The contract between a person and a server: schemas, budgets, mechanisms, guarantees and their audit."""
