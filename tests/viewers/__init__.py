"""The demo in real viewers: what was scored must be what people see there."""
