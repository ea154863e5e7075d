"""Small simulated worlds that render video and exact timelines."""
