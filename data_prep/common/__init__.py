"""What every data-prep step shares: counting, running many tasks, options."""
