"""Studies that take minutes: how well methods do, and what attacks achieve."""
